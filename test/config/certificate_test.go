package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/internal/testenv"
)

// issuer issues the certificates of rendered objects as cert-manager would: each for the
// names of its Certificate, signed by what its Issuer names.
type issuer struct {
	*WithT
	t       *testing.T
	objects []*unstructured.Unstructured
	secrets map[string]*keyPair
}

// keyPair is a certificate with its key and the one that signed it.
type keyPair struct {
	cert, ca *x509.Certificate
	key      *ecdsa.PrivateKey
}

func newIssuer(t *testing.T, objects []*unstructured.Unstructured) *issuer {
	t.Helper()
	return &issuer{WithT: NewWithT(t), t: t, objects: objects, secrets: map[string]*keyPair{}}
}

// of returns the object of a kind whose field has a value.
func (i *issuer) of(kind, value string, field ...string) *unstructured.Unstructured {
	for _, obj := range i.objects {
		have, _, err := unstructured.NestedString(obj.Object, field...)
		if obj.GetKind() == kind && err == nil && have == value {
			return obj
		}
	}
	i.t.Fatalf("no %s has %v %s", kind, field, value)
	return nil
}

// secret returns the content of a Secret, which is issued when it is first needed.
func (i *issuer) secret(name string) *keyPair {
	if i.secrets[name] != nil {
		return i.secrets[name]
	}
	certificate := i.of("Certificate", name, "spec", "secretName")
	issuerName, _, err := unstructured.NestedString(certificate.Object, "spec", "issuerRef", "name")
	i.Expect(err).NotTo(HaveOccurred())
	names, _, err := unstructured.NestedStringSlice(certificate.Object, "spec", "dnsNames")
	i.Expect(err).NotTo(HaveOccurred())
	common, _, err := unstructured.NestedString(certificate.Object, "spec", "commonName")
	i.Expect(err).NotTo(HaveOccurred())
	isCA, _, err := unstructured.NestedBool(certificate.Object, "spec", "isCA")
	i.Expect(err).NotTo(HaveOccurred())

	pair := &keyPair{}
	pair.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	i.Expect(err).NotTo(HaveOccurred())
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	i.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: common}, DNSNames: names, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, IsCA: isCA, BasicConstraintsValid: true,
	}
	if isCA {
		template.KeyUsage |= x509.KeyUsageCertSign
	}
	parent, key := template, pair.key
	signer, signs, err := unstructured.NestedString(i.of("Issuer", issuerName, "metadata", "name").Object, "spec", "ca", "secretName")
	i.Expect(err).NotTo(HaveOccurred())
	if signs {
		parent, key = i.secret(signer).cert, i.secret(signer).key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &pair.key.PublicKey, key)
	i.Expect(err).NotTo(HaveOccurred())
	pair.cert, err = x509.ParseCertificate(der)
	i.Expect(err).NotTo(HaveOccurred())
	pair.ca = pair.cert
	if signs {
		pair.ca = parent
	}
	i.secrets[name] = pair
	return pair
}

// write writes a Secret to a directory, as a volume of a pod has it.
func (i *issuer) write(name, dir string) {
	pair := i.secret(name)
	key, err := x509.MarshalPKCS8PrivateKey(pair.key)
	i.Expect(err).NotTo(HaveOccurred())
	for file, block := range map[string]*pem.Block{
		"tls.key": {Type: "PRIVATE KEY", Bytes: key}, "tls.crt": {Type: "CERTIFICATE", Bytes: pair.cert.Raw}, "ca.crt": {Type: "CERTIFICATE", Bytes: pair.ca.Raw},
	} {
		next := filepath.Join(dir, file+".new")
		i.Expect(os.WriteFile(next, pem.EncodeToMemory(block), 0o600)).To(Succeed())
		i.Expect(os.Rename(next, filepath.Join(dir, file))).To(Succeed())
	}
}

// monitor is how Prometheus verifies the manager.
type monitor struct {
	serverName, secret string
}

// readMonitor returns what the ServiceMonitor says. It is not rendered with config/default.
func readMonitor(t *testing.T) monitor {
	t.Helper()
	g := NewWithT(t)
	text := testenv.ReadFile(t, "config/prometheus/monitor.yaml")
	var object struct {
		Spec struct {
			Endpoints []struct {
				TLSConfig struct {
					ServerName string `json:"serverName"`
					CA         struct {
						Secret struct{ Name, Key string }
					}
				} `json:"tlsConfig"`
			}
		}
	}
	g.Expect(yaml.Unmarshal(text, &object)).To(Succeed())
	g.Expect(object.Spec.Endpoints).To(HaveLen(1))
	config := object.Spec.Endpoints[0].TLSConfig
	g.Expect(config.CA.Secret.Key).To(Equal("ca.crt"))
	return monitor{serverName: config.ServerName, secret: config.CA.Secret.Name}
}

// client returns a client that verifies the manager as Prometheus does. Each request makes a
// connection.
func (m monitor) client(i *issuer) *http.Client {
	roots := x509.NewCertPool()
	roots.AddCert(i.secret(m.secret).ca)
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: m.serverName},
	}}
}

// checkRenewal checks that who trusts the CA needs nothing new when the certificate is renewed,
// and that the manager serves the new one without a restart.
func checkRenewal(t *testing.T, m *installed, i *issuer, monitor monitor, certs string) {
	g := NewWithT(t)
	client := monitor.client(i)
	served := func() (*big.Int, error) {
		resp, err := client.Get("https://" + m.diagnostics + "/metrics")
		if err != nil {
			return nil, err
		}
		return resp.TLS.PeerCertificates[0].SerialNumber, resp.Body.Close()
	}
	g.Expect(served()).To(Equal(i.secret(monitor.secret).cert.SerialNumber))

	delete(i.secrets, monitor.secret)
	i.write(monitor.secret, certs)

	g.Eventually(served, testTimeout, 100*time.Millisecond).Should(Equal(i.secret(monitor.secret).cert.SerialNumber))
}

// The CA that clients trust stays the same when a certificate is renewed.
func TestCertificates_haveACA(t *testing.T) {
	for dir, prefix := range map[string]string{
		"config/default": "capt", "config/providers/infrastructure": "capt", "config/providers/control-plane": "capt-control-plane",
		"config/providers/bootstrap": "capt-bootstrap", "config/providers/addon": "capt-addon",
	} {
		t.Run(dir, func(t *testing.T) {
			g := NewWithT(t)
			objects, err := testenv.Kustomize(dir)
			g.Expect(err).NotTo(HaveOccurred())
			pair := newIssuer(t, objects).secret(prefix + "-serving-cert")
			g.Expect(pair.cert.IsCA).To(BeFalse())
			g.Expect(pair.ca.IsCA).To(BeTrue())
			roots := x509.NewCertPool()
			roots.AddCert(pair.ca)
			for _, service := range []string{"-webhook-service", "-controller-manager-metrics-service"} {
				g.Expect(pair.cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: prefix + service + "." + prefix + "-system.svc"})).Error().NotTo(HaveOccurred())
			}
			// The certificates that a CA has issued remain valid when it is renewed with its key.
			ca := newIssuer(t, objects).of("Certificate", prefix+"-ca", "spec", "secretName")
			policy, _, err := unstructured.NestedString(ca.Object, "spec", "privateKey", "rotationPolicy")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(policy).To(Equal("Never"))
		})
	}
}
