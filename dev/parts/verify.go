package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	_ "embed"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
)

// fulcio contains the certificates of Sigstore's certificate authority.
//
//go:embed fulcio.pem
var fulcio []byte

// The extensions of Sigstore's certificates that name the issuer of the identity.
var (
	issuerExtension    = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}
	oldIssuerExtension = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}
)

// authority verifies certificates.
type authority struct{ roots, intermediates *x509.CertPool }

// newAuthority returns the authority with the self-signed certificates of a PEM file as
// roots, and the others as intermediates.
func newAuthority(text []byte) (authority, error) {
	a := authority{roots: x509.NewCertPool(), intermediates: x509.NewCertPool()}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return authority{}, fmt.Errorf("reading an authority: %w", err)
		}
		if bytes.Equal(certificate.RawIssuer, certificate.RawSubject) {
			a.roots.AddCert(certificate)
		} else {
			a.intermediates.AddCert(certificate)
		}
	}
	return a, nil
}

// verify checks that the owner of an identity has signed content with the given SHA-256
// sum. The certificate of a keyless signature is valid for minutes and is checked at the
// time of its issue: without a transparency log, the time of the signature is not proven.
func (a authority) verify(s *signature, sum [sha256.Size]byte, signatureText, certificateText []byte) error {
	certificate, err := parseCertificate(certificateText)
	if err != nil {
		return err
	}
	if _, err := certificate.Verify(x509.VerifyOptions{
		Roots: a.roots, Intermediates: a.intermediates, CurrentTime: certificate.NotBefore,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}); err != nil {
		return fmt.Errorf("the certificate of the signature is not trusted: %w", err)
	}
	identities := slices.Clone(certificate.EmailAddresses)
	for _, uri := range certificate.URIs {
		identities = append(identities, uri.String())
	}
	if !slices.Equal(identities, []string{s.identity}) {
		return fmt.Errorf("it is signed by %q, not by %s", identities, s.identity)
	}
	if issuer := issuerOf(certificate); issuer != s.issuer {
		return fmt.Errorf("the identity of the signer is from %q, not from %s", issuer, s.issuer)
	}
	key, isECDSA := certificate.PublicKey.(*ecdsa.PublicKey)
	decoded, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(signatureText)))
	if err != nil {
		// OpenTofu publishes the signature of its checksums without an encoding.
		decoded = signatureText
	}
	if !isECDSA || !ecdsa.VerifyASN1(key, sum[:], decoded) {
		return errors.New("the signature does not match the content")
	}
	return nil
}

// parseCertificate parses a certificate in PEM, or base64 of it, as cosign writes it.
func parseCertificate(text []byte) (*x509.Certificate, error) {
	if decoded, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(text))); err == nil {
		text = decoded
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the certificate of the signature is not in PEM")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the signature: %w", err)
	}
	return certificate, nil
}

// issuerOf returns who has verified the identity in a certificate.
func issuerOf(certificate *x509.Certificate) string {
	old := ""
	for _, extension := range certificate.Extensions {
		switch {
		case extension.Id.Equal(issuerExtension):
			var issuer string
			if rest, err := asn1.Unmarshal(extension.Value, &issuer); err == nil && len(rest) == 0 {
				return issuer
			}
			return ""
		case extension.Id.Equal(oldIssuerExtension):
			old = string(extension.Value)
		}
	}
	return old
}
