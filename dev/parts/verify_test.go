package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// signer is a certificate authority that issues certificates as Sigstore's does.
type signer struct {
	t           *testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	s := &signer{t: t, key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-1000 * time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	s.certificate = s.issue(template, template, s.key, s.key)
	return s
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (s *signer) issue(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) *x509.Certificate {
	s.t.Helper()
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		s.t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		s.t.Fatal(err)
	}
	return certificate
}

func (s *signer) authority() authority {
	s.t.Helper()
	a, err := newAuthority(pemOf(s.certificate))
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func pemOf(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}

// identity is what a certificate says about the signer.
type identity struct {
	email, uri, issuer, oldIssuer string
	usage                         x509.ExtKeyUsage
}

// sign returns a signature and its certificate, which has expired, as cosign writes
// them.
func (s *signer) sign(who identity, content string) (signatureText, certificateText []byte) {
	s.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-100 * time.Hour), NotAfter: time.Now().Add(-99 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{who.usage},
	}
	if who.email != "" {
		template.EmailAddresses = []string{who.email}
	}
	if who.uri != "" {
		uri, err := url.Parse(who.uri)
		if err != nil {
			s.t.Fatal(err)
		}
		template.URIs = []*url.URL{uri}
	}
	if who.issuer != "" {
		value, err := asn1.MarshalWithParams(who.issuer, "utf8")
		if err != nil {
			s.t.Fatal(err)
		}
		template.ExtraExtensions = append(template.ExtraExtensions, pkix.Extension{Id: issuerExtension, Value: value})
	}
	if who.oldIssuer != "" {
		template.ExtraExtensions = append(template.ExtraExtensions, pkix.Extension{Id: oldIssuerExtension, Value: []byte(who.oldIssuer)})
	}
	key := newKey(s.t)
	certificate := s.issue(template, s.certificate, key, s.key)
	sum := sha256.Sum256([]byte(content))
	raw, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		s.t.Fatal(err)
	}
	return []byte(base64.StdEncoding.EncodeToString(raw) + "\n"), []byte(base64.StdEncoding.EncodeToString(pemOf(certificate)))
}

func TestAuthority_acceptsOnlyTheIdentity(t *testing.T) {
	own, other := newSigner(t), newSigner(t)
	const email, issuer, content = "release@example.com", "https://issuer.example.com", "content"
	good := identity{email: email, issuer: issuer, usage: x509.ExtKeyUsageCodeSigning}
	changed := func(change func(*identity)) identity {
		who := good
		change(&who)
		return who
	}
	plain := func(signatureText, certificateText []byte) ([]byte, []byte) {
		rawSignature, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(signatureText)))
		if err != nil {
			t.Fatal(err)
		}
		rawCertificate, err := base64.StdEncoding.DecodeString(string(certificateText))
		if err != nil {
			t.Fatal(err)
		}
		return rawSignature, rawCertificate
	}
	for name, tt := range map[string]struct {
		signer *signer
		who    identity
		signed string
		encode func(_, _ []byte) ([]byte, []byte)
		want   string
	}{
		"good":                {own, good, content, nil, ""},
		"not encoded":         {own, good, content, plain, ""},
		"old issuer":          {own, changed(func(i *identity) { i.issuer, i.oldIssuer = "", issuer }), content, nil, ""},
		"URI instead":         {own, changed(func(i *identity) { i.email, i.uri = "", "https://example.com/release" }), content, nil, "it is signed by"},
		"URI too":             {own, changed(func(i *identity) { i.uri = "https://example.com/release" }), content, nil, "it is signed by"},
		"another email":       {own, changed(func(i *identity) { i.email = "x" + email }), content, nil, "it is signed by"},
		"no identity":         {own, changed(func(i *identity) { i.email = "" }), content, nil, "it is signed by"},
		"another issuer":      {own, changed(func(i *identity) { i.issuer = "https://other.example.com" }), content, nil, "is from"},
		"issuers that differ": {own, changed(func(i *identity) { i.issuer, i.oldIssuer = "https://other.example.com", issuer }), content, nil, "is from"},
		"no issuer":           {own, changed(func(i *identity) { i.issuer = "" }), content, nil, "is from"},
		"another usage":       {own, changed(func(i *identity) { i.usage = x509.ExtKeyUsageServerAuth }), content, nil, "not trusted"},
		"another authority":   {other, good, content, nil, "not trusted"},
		"another content":     {own, good, "contenT", nil, "does not match"},
		"no certificate":      {own, good, content, func(s, _ []byte) ([]byte, []byte) { return s, []byte("none") }, "PEM"},
		"no signature":        {own, good, content, func(_, c []byte) ([]byte, []byte) { return nil, c }, "does not match"},
	} {
		t.Run(name, func(t *testing.T) {
			signatureText, certificateText := tt.signer.sign(tt.who, tt.signed)
			if tt.encode != nil {
				signatureText, certificateText = tt.encode(signatureText, certificateText)
			}
			err := own.authority().verify(&signature{identity: email, issuer: issuer}, sha256.Sum256([]byte(content)), signatureText, certificateText)
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestFulcio_hasARootAndAnIntermediate(t *testing.T) {
	var subjects []string
	for block, rest := pem.Decode(fulcio); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		subjects = append(subjects, certificate.Subject.CommonName)
		a, err := newAuthority(fulcio)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := certificate.Verify(x509.VerifyOptions{
			Roots: a.roots, Intermediates: a.intermediates, CurrentTime: certificate.NotBefore, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		}); err != nil {
			t.Errorf("%s: %v", certificate.Subject, err)
		}
	}
	if !slices.Equal(subjects, []string{"sigstore", "sigstore-intermediate"}) {
		t.Errorf("the certificates are %q", subjects)
	}
}

// A signature that Sigstore's own authority has certified, from the test suite of its
// clients. A published program can be signed in the same way, but none is known here.
func TestAuthority_acceptsARealSignature(t *testing.T) {
	read := func(name string) []byte {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	certificate, signed := read("conformance.pem"), read("conformance.sig")
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(signed)))
	if err != nil {
		t.Fatal(err)
	}
	var sum [sha256.Size]byte
	if _, err := hex.Decode(sum[:], []byte("a0cfc71271d6e278e57cd332ff957c3f7043fdda354c4cbb190a30d56efa01bf")); err != nil {
		t.Fatal(err)
	}
	authority, err := newAuthority(fulcio)
	if err != nil {
		t.Fatal(err)
	}
	const workflow = "sigstore-conformance/extremely-dangerous-public-oidc-beacon/.github/workflows/extremely-dangerous-oidc-beacon.yml"
	who := &signature{identity: github + workflow + "@refs/heads/main", issuer: "https://token.actions.githubusercontent.com"}
	for name, texts := range map[string][2][]byte{
		"PEM":                   {signed, certificate},
		"base64 of PEM":         {signed, []byte(base64.StdEncoding.EncodeToString(certificate) + "\n")},
		"signature not encoded": {decoded, certificate},
	} {
		if err := authority.verify(who, sum, texts[0], texts[1]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	another := *who
	another.identity += "2"
	if err := authority.verify(&another, sum, signed, certificate); err == nil || !strings.Contains(err.Error(), "it is signed by") {
		t.Errorf("another identity: %v", err)
	}
	sum[0]++
	if err := authority.verify(who, sum, signed, certificate); err == nil || !strings.Contains(err.Error(), "does not match") {
		t.Errorf("another content: %v", err)
	}
}
