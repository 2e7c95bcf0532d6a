package controlplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/appthrust/capt/internal/host"
)

// validity is long because certificates are not renewed.
const validity = 10 * 365 * 24 * time.Hour

// The names of the CAs. etcd has its own, so that a certificate of the cluster does
// not give access to its storage.
const (
	clusterCA = "ca"
	etcdCA    = "etcd-ca"
)

// The names of certificates. The files are NAME.crt and NAME.key.
const (
	servingPair    = "serving"
	adminPair      = "admin"
	etcdServerPair = "etcd-server"
	etcdClientPair = "etcd-client"
	webhookPair    = "webhooks"
	// accountKey signs the tokens of service accounts, and accountPublic verifies
	// them.
	accountKey    = "service-account.key"
	accountPublic = "service-account.pub"
)

// leaf is a certificate that a CA signs.
type leaf struct {
	name, ca string
	subject  pkix.Name
	usage    []x509.ExtKeyUsage
}

var leaves = []leaf{
	{
		name: servingPair, ca: clusterCA, subject: pkix.Name{CommonName: "kube-apiserver"},
		usage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	},
	{
		name: webhookPair, ca: clusterCA, subject: pkix.Name{CommonName: "webhooks"},
		usage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	},
	{
		name: adminPair, ca: clusterCA, subject: pkix.Name{CommonName: "local-admin", Organization: []string{"system:masters"}},
		usage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	},
	{
		// A member of etcd is a server and a client of its peers.
		name: etcdServerPair, ca: etcdCA, subject: pkix.Name{CommonName: "etcd"},
		usage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	},
	{
		name: etcdClientPair, ca: etcdCA, subject: pkix.Name{CommonName: "kube-apiserver"},
		usage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	},
}

// ensureCertificates creates missing certificates and keeps existing ones. A
// certificate is written after its key, so a pair is complete if its certificate
// exists.
func (l layout) ensureCertificates(now time.Time) error {
	if err := os.Mkdir(l.path("pki"), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("creating the certificate directory: %w", err)
	}
	cas := map[string]*tls.Certificate{}
	for _, name := range []string{clusterCA, etcdCA} {
		pair, err := l.ensurePair(name, &x509.Certificate{
			Subject: pkix.Name{CommonName: "local " + name}, IsCA: true, BasicConstraintsValid: true,
			KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		}, nil, now)
		if err != nil {
			return err
		}
		cas[name] = pair
	}
	for _, leaf := range leaves {
		template := &x509.Certificate{Subject: leaf.subject, ExtKeyUsage: leaf.usage, KeyUsage: x509.KeyUsageDigitalSignature}
		if leaf.usage[0] == x509.ExtKeyUsageServerAuth {
			template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, serviceAddress}
			template.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
		}
		if _, err := l.ensurePair(leaf.name, template, cas[leaf.ca], now); err != nil {
			return err
		}
	}
	if err := l.ensureAccountKey(); err != nil {
		return err
	}
	return l.publishCACertificate()
}

// ensurePair loads a certificate and its key, or creates them. A certificate without a
// parent is self-signed.
func (l layout) ensurePair(name string, template *x509.Certificate, parent *tls.Certificate, now time.Time) (*tls.Certificate, error) {
	certFile, keyFile := l.pki(name+".crt"), l.pki(name+".key")
	if _, err := os.Stat(certFile); err == nil {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("reading certificate %s: %w", name, err)
		}
		return &pair, nil
	}
	certPEM, keyPEM, err := issue(template, parent, now)
	if err != nil {
		return nil, fmt.Errorf("creating certificate %s: %w", name, err)
	}
	if err := errors.Join(host.WriteFile(keyFile, keyPEM, 0o600), host.WriteFile(certFile, certPEM, 0o644)); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("creating certificate %s: %w", name, err)
	}
	return &pair, nil
}

// issue creates a key and a certificate that is signed by parent or self-signed.
func issue(template *x509.Certificate, parent *tls.Certificate, now time.Time) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("creating a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, fmt.Errorf("creating a serial number: %w", err)
	}
	template.SerialNumber = serial
	// Tolerates clock skew.
	template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.Add(validity)
	signer, signedBy := crypto.Signer(key), template
	if parent != nil {
		signedBy = parent.Leaf
		var ok bool
		if signer, ok = parent.PrivateKey.(crypto.Signer); !ok {
			return nil, nil, errors.New("the key of the CA cannot sign")
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signedBy, key.Public(), signer)
	if err != nil {
		return nil, nil, fmt.Errorf("signing: %w", err)
	}
	keyPEM, err = encodeKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM, err
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// ensureAccountKey creates the key of service accounts. The public key is written
// last, so both exist if it does.
func (l layout) ensureAccountKey() error {
	if _, err := os.Stat(l.pki(accountPublic)); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("creating the key of service accounts: %w", err)
	}
	private, err := encodeKey(key)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encoding the key of service accounts: %w", err)
	}
	if err := host.WriteFile(l.pki(accountKey), private, 0o600); err != nil {
		return err
	}
	return host.WriteFile(l.pki(accountPublic), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o644)
}

// publishCACertificate copies the cluster's CA certificate to where other programs
// read it.
func (l layout) publishCACertificate() error {
	content, err := os.ReadFile(l.pki(clusterCA + ".crt"))
	if err != nil {
		return fmt.Errorf("reading %s: %w", filepath.Base(l.caCertificate()), err)
	}
	return host.WriteFile(l.caCertificate(), content, 0o644)
}
