package record

import (
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/base64"
	"errors"
	"fmt"
)

// sealInfo separates this use of a key from others.
var sealInfo = []byte("capt.appthrust.io/state-command output")

// Key decrypts the output of one state command. Only the process that generated it
// has it.
type Key struct{ private hpke.PrivateKey }

// NewKey generates a key.
func NewKey() (*Key, error) {
	private, err := hpke.DHKEM(ecdh.X25519()).GenerateKey()
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	return &Key{private}, nil
}

// Public returns the public part of the key as text.
func (k *Key) Public() string {
	return base64.StdEncoding.EncodeToString(k.private.PublicKey().Bytes())
}

// Seal compresses content and encrypts it for the owner of a public key.
func Seal(public string, content []byte) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(public)
	if err != nil {
		return nil, errors.New("the public key is not valid base64")
	}
	key, err := hpke.DHKEM(ecdh.X25519()).NewPublicKey(data)
	if err != nil {
		return nil, fmt.Errorf("reading the public key: %w", err)
	}
	compressed, err := Compress(content)
	if err != nil {
		return nil, fmt.Errorf("compressing the output: %w", err)
	}
	sealed, err := hpke.Seal(key, hpke.HKDFSHA256(), hpke.AES256GCM(), sealInfo, compressed)
	if err != nil {
		return nil, fmt.Errorf("encrypting the output: %w", err)
	}
	return sealed, nil
}

// Open reverses Seal.
func (k *Key) Open(sealed []byte) ([]byte, error) {
	compressed, err := hpke.Open(k.private, hpke.HKDFSHA256(), hpke.AES256GCM(), sealInfo, sealed)
	if err != nil {
		return nil, fmt.Errorf("decrypting the output: %w", err)
	}
	content, err := decompress(compressed, maxChunkedContent)
	if err != nil {
		return nil, fmt.Errorf("decompressing the output: %w", err)
	}
	return content, nil
}
