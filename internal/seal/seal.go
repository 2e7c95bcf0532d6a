// Package seal authenticates what the manager stores in objects that others can write,
// too: only the manager has the key.
package seal

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"
)

// KeySize is the size of a key in bytes.
const KeySize = 32

// Key seals and verifies content.
type Key struct {
	secret  []byte
	created time.Time
}

// Generate returns the bytes of a new key.
func Generate() []byte {
	secret := make([]byte, KeySize)
	_, _ = rand.Read(secret) // It never fails.
	return secret
}

// New returns the key with the given bytes, and when it was created.
func New(secret []byte, created time.Time) (*Key, error) {
	if len(secret) != KeySize {
		return nil, fmt.Errorf("the key has %d bytes: it must have %d", len(secret), KeySize)
	}
	return &Key{secret: secret, created: created}, nil
}

// Created returns when the key was created. What is older cannot be sealed with it.
func (k *Key) Created() time.Time { return k.created }

// version precedes each seal.
const version = "v1:"

// Sign returns the seal of content. A seal for one purpose is not valid for another.
func (k *Key) Sign(purpose string, content []byte) string {
	derived, err := hkdf.Key(sha256.New, k.secret, nil, purpose, KeySize)
	if err != nil { // Only for lengths beyond those of the hash.
		panic(fmt.Sprintf("deriving a key: %v", err))
	}
	mac := hmac.New(sha256.New, derived)
	mac.Write(content)
	return version + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Verify reports whether the seal is that of content.
func (k *Key) Verify(purpose string, content []byte, seal string) bool {
	return hmac.Equal([]byte(k.Sign(purpose, content)), []byte(seal))
}
