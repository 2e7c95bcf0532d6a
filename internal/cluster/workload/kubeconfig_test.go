package workload

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

const good = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: u, user: {token: s3cret}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

func TestCheckKubeconfig_rejectsWhatClusterAPICannotUse(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"a token", good, ""},
		{"nonsense", "s3cret: [", "it is not a valid kubeconfig"},
		{"no context", strings.Replace(good, "current-context: x", "", 1), "no current-context"},
		{"no server", strings.Replace(good, `server: "https://127.0.0.1:6443"`, "", 1), "has no server"},
		{"no user", strings.Replace(good, "user: u", "user: v", 1), "has no user"},
		{"a program", strings.Replace(good, "token: s3cret", "exec: {command: aws, apiVersion: client.authentication.k8s.io/v1beta1, interactiveMode: Never}", 1), "runs a program"},
		{"a file", strings.Replace(good, "token: s3cret", "tokenFile: /var/s3cret", 1), "refers to files"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			expires, err := CheckKubeconfig([]byte(tt.text))
			g.Expect(expires).To(BeZero())
			if tt.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(tt.want)))
			g.Expect(err.Error()).NotTo(ContainSubstring("s3cret"))
		})
	}
}

func TestCheckKubeconfig_returnsExpiryOfCertificate(t *testing.T) {
	g := NewWithT(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	expiry := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: expiry.Add(-time.Hour), NotAfter: expiry}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	g.Expect(err).NotTo(HaveOccurred())
	text := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))

	expires, err := CheckKubeconfig([]byte(strings.Replace(good, "token: s3cret", "client-certificate-data: "+text, 1)))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(expires).To(BeTemporally("==", expiry))
}
