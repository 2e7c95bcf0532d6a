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

func TestEnsureCertificates_verifyForTheirUse(t *testing.T) {
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
		name, authority, host string
		usage                 []x509.ExtKeyUsage
		at                    time.Time
		good                  bool
	}{
		{servingPair, clusterAuthority, "127.0.0.1", server, now, true},
		{servingPair, clusterAuthority, "localhost", server, now, true},
		{servingPair, clusterAuthority, "kubernetes.default.svc", server, now, true},
		{servingPair, clusterAuthority, "10.96.0.1", server, now, true},
		{servingPair, clusterAuthority, "example.com", server, now, false},
		{servingPair, clusterAuthority, "", user, now, false},
		{webhookPair, clusterAuthority, "127.0.0.1", server, now, true},
		{webhookPair, clusterAuthority, "", user, now, false},
		{servingPair, etcdAuthority, "127.0.0.1", server, now, false},
		{adminPair, clusterAuthority, "", user, now, true},
		{adminPair, clusterAuthority, "", server, now, false},
		// Whoever has a certificate of the cluster must not reach its storage.
		{adminPair, etcdAuthority, "", user, now, false},
		{etcdClientPair, etcdAuthority, "", user, now, true},
		{etcdServerPair, etcdAuthority, "127.0.0.1", server, now, true},
		{adminPair, clusterAuthority, "", user, now.AddDate(9, 0, 0), true},
		{adminPair, clusterAuthority, "", user, now.AddDate(11, 0, 0), false},
	} {
		_, err := certificate(t, l.pki(test.name+".crt")).Verify(x509.VerifyOptions{
			Roots: pool(test.authority), DNSName: test.host, KeyUsages: test.usage, CurrentTime: test.at,
		})
		g.Expect(err == nil).To(Equal(test.good), "%+v: %v", test, err)
	}
	g.Expect(certificate(t, l.pki(adminPair+".crt")).Subject.Organization).To(Equal([]string{"system:masters"}))
	g.Expect(read(t, l.authority())).To(Equal(read(t, l.pki("ca.crt"))))
}

func TestEnsureCertificates_keepWhatIsThere(t *testing.T) {
	g := NewWithT(t)
	l := layout(t.TempDir())
	g.Expect(l.ensureCertificates(now)).To(Succeed())
	before := files(t, l.path("pki"))
	g.Expect(before).To(HaveLen(16))
	g.Expect(l.ensureCertificates(now.Add(time.Hour))).To(Succeed())
	g.Expect(files(t, l.path("pki"))).To(Equal(before))

	// A start that was killed after a key was written makes the pair anew.
	g.Expect(os.Remove(l.pki(adminPair + ".crt"))).To(Succeed())
	g.Expect(l.ensureCertificates(now)).To(Succeed())
	g.Expect(read(t, l.pki(adminPair+".key"))).NotTo(Equal(before[adminPair+".key"]))
	_, err := l.client(time.Second)
	g.Expect(err).NotTo(HaveOccurred(), "certificate and key fit")

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
