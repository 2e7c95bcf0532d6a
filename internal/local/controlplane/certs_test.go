package controlplane

import (
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

var now = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

func listen(port int) (net.Listener, error) { return net.Listen("tcp", loopback(port)) }

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func certificate(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(read(t, path)))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestEnsureCertificates_areValidForTheirUsage(t *testing.T) {
	g := NewWithT(t)
	l := layout(t.TempDir())
	g.Expect(l.ensureCertificates(now)).To(Succeed())
	pool := func(name string) *x509.CertPool {
		pool := x509.NewCertPool()
		pool.AddCert(certificate(t, l.pki(name+".crt")))
		return pool
	}
	server, user := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	for _, test := range []struct {
		name, ca, host string
		usage          []x509.ExtKeyUsage
		at             time.Time
		valid          bool
	}{
		{servingPair, clusterCA, "127.0.0.1", server, now, true},
		{servingPair, clusterCA, "localhost", server, now, true},
		{servingPair, clusterCA, "kubernetes.default.svc", server, now, true},
		{servingPair, clusterCA, "10.96.0.1", server, now, true},
		{servingPair, clusterCA, "example.com", server, now, false},
		{servingPair, clusterCA, "", user, now, false},
		{webhookPair, clusterCA, "127.0.0.1", server, now, true},
		{webhookPair, clusterCA, "", user, now, false},
		{servingPair, etcdCA, "127.0.0.1", server, now, false},
		{adminPair, clusterCA, "", user, now, true},
		{adminPair, clusterCA, "", server, now, false},
		// A certificate of the cluster does not give access to its storage.
		{adminPair, etcdCA, "", user, now, false},
		{etcdClientPair, etcdCA, "", user, now, true},
		{etcdServerPair, etcdCA, "127.0.0.1", server, now, true},
		{adminPair, clusterCA, "", user, now.AddDate(9, 0, 0), true},
		{adminPair, clusterCA, "", user, now.AddDate(11, 0, 0), false},
	} {
		_, err := certificate(t, l.pki(test.name+".crt")).Verify(x509.VerifyOptions{
			Roots: pool(test.ca), DNSName: test.host, KeyUsages: test.usage, CurrentTime: test.at,
		})
		g.Expect(err == nil).To(Equal(test.valid), "%+v: %v", test, err)
	}
	g.Expect(certificate(t, l.pki(adminPair+".crt")).Subject.Organization).To(Equal([]string{"system:masters"}))
	g.Expect(read(t, l.caCertificate())).To(Equal(read(t, l.pki("ca.crt"))))
}

func TestEnsureCertificates_keepsExistingOnes(t *testing.T) {
	g := NewWithT(t)
	l := layout(t.TempDir())
	g.Expect(l.ensureCertificates(now)).To(Succeed())
	before := files(t, l.path("pki"))
	g.Expect(before).To(HaveLen(16))
	g.Expect(l.ensureCertificates(now.Add(time.Hour))).To(Succeed())
	g.Expect(files(t, l.path("pki"))).To(Equal(before))

	// A start that was interrupted after a key was written creates a new pair.
	g.Expect(os.Remove(l.pki(adminPair + ".crt"))).To(Succeed())
	g.Expect(l.ensureCertificates(now)).To(Succeed())
	g.Expect(read(t, l.pki(adminPair+".key"))).NotTo(Equal(before[adminPair+".key"]))
	g.Expect(l.client(time.Second)).Error().NotTo(HaveOccurred(), "certificate and key match")

	keys, _ := filepath.Glob(l.pki("*.key"))
	for _, key := range keys {
		info, err := os.Stat(key)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)), key)
	}
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	paths, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, path := range paths {
		found[filepath.Base(path)] = read(t, path)
	}
	return found
}
