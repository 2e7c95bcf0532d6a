package workload

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/appthrust/capt/internal/kubernetes/dial"
	"github.com/appthrust/capt/internal/testenv/memorytest"
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
		{"aliases that expand", good + "extensions:\n- &a " + strings.Repeat("x", 100<<10) + strings.Repeat("\n- *a", 1000), "it is not a valid kubeconfig"},
		{"no context", strings.Replace(good, "current-context: x", "", 1), "no current-context"},
		{"no server", strings.Replace(good, `server: "https://127.0.0.1:6443"`, "", 1), "has no server"},
		{"no user", strings.Replace(good, "user: u", "user: v", 1), "has no user"},
		{"a program", strings.Replace(good, "token: s3cret", "exec: {command: aws, apiVersion: client.authentication.k8s.io/v1beta1, interactiveMode: Never}", 1), "runs a program"},
		{"plain HTTP", strings.Replace(good, "https://", "http://", 1), "does not use HTTPS"},
		{"a proxy", strings.Replace(good, "server:", "proxy-url: http://127.0.0.1:1, server:", 1), "has a proxy-url"},
		{"another user", strings.Replace(good, "token:", "as: admin, token:", 1), "impersonates another user"},
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

// Who writes the Secret of a kubeconfig must not end the manager.
func TestClean_refusesWhatFillsTheMemory(t *testing.T) {
	for name, text := range map[string]string{
		"many maps":       good + "x: [" + strings.Repeat("{a: 1},", 30_000) + "1]\n",
		"many values":     good + "x: [" + strings.Repeat("1,", 120_000) + "1]\n",
		"many lines":      good + "x:\n" + strings.Repeat("-\u0085  a:\u0085", 25_000),
		"aliases of maps": good + "x: &a [" + strings.Repeat("a: 1,", 100) + "1]\ny: [" + strings.Repeat("*a,", 900) + "1]\n",
		"few aliases":     good + "z: &a [" + strings.Repeat("{a: 1},", 450) + "1]\ny: [" + strings.Repeat("*a,", 55) + "1]\n",
		"a merge":         good + "z: &a {b: 1}\ny: {<<: *a}\n",
		"a long text":     good + "x: " + strings.Repeat("x", 3<<20),
	} {
		g := NewWithT(t)
		var err error
		allocated := memorytest.Allocated(func() { _, err = Clean([]byte(text)) })
		t.Logf("%s: %d KiB, %d MiB allocated", name, len(text)>>10, allocated>>20)
		if !strings.HasPrefix(name, "many ") {
			g.Expect(err).To(MatchError(ContainSubstring("not a valid kubeconfig")), name)
		}
		g.Expect(allocated).To(BeNumerically("<", 96<<20), name)
	}
	bundle := strings.Replace(good, "server:", "certificate-authority-data: "+base64.StdEncoding.EncodeToString(make([]byte, 128<<10))+", server:", 1)
	_, err := Clean([]byte(bundle))
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), "a bundle of certificates is normal")
	_, err = Clean([]byte(strings.Replace(good, "token: s3cret", `username: "a&b", password: "*a"`, 1)))
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), "these are not aliases")
	_, err = Clean([]byte(good + "z: &a 1\ny: *a\n"))
	NewWithT(t).Expect(err).To(MatchError("it is not a valid kubeconfig: it has YAML aliases, write their values instead"))
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

func TestClean_keepsOnlyServerAndCredentials(t *testing.T) {
	g := NewWithT(t)
	text := strings.Replace(good, "users: [", `users: [{name: other, user: {exec: {command: touch, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}}}, `, 1)
	text = strings.Replace(text, "contexts: [", "contexts: [{name: other, context: {cluster: c, user: other}}, ", 1)
	cleaned, err := Clean([]byte(text))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(cleaned)).To(And(ContainSubstring("https://127.0.0.1:6443"), ContainSubstring("s3cret"), Not(ContainSubstring("touch"))))
	g.Expect(Clean(cleaned)).To(Equal(cleaned))
}

// Who can write the Secret of a kubeconfig must not run a program in the manager, nor get
// its token.
func TestConnector_readsNoFileAndRunsNothing(t *testing.T) {
	g := NewWithT(t)
	var seen atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) }))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	token, ran := filepath.Join(dir, "token"), filepath.Join(dir, "ran")
	g.Expect(os.WriteFile(token, []byte("of the manager"), 0o600)).To(Succeed())
	for _, user := range []string{
		"tokenFile: " + token,
		"exec: {command: touch, args: [" + ran + "], apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}",
	} {
		text := strings.Replace(good, `server: "https://127.0.0.1:6443"`, `insecure-skip-tls-verify: true, server: "`+server.URL+`"`, 1)
		text = strings.Replace(text, "token: s3cret", user, 1)
		_, err := Connector{}.Version(t.Context(), []byte(text))
		g.Expect(err).To(HaveOccurred())
		_, err = Connector{}.Client([]byte(text))
		g.Expect(err).To(HaveOccurred())
	}
	g.Expect(seen.Load()).To(BeZero())
	g.Expect(ran).NotTo(BeAnExistingFile())
}

func TestConnector_followsNoRedirect(t *testing.T) {
	g := NewWithT(t)
	var tokens []string
	other := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { tokens = append(tokens, r.Header.Get("Authorization")) }))
	t.Cleanup(other.Close)
	server := httptest.NewTLSServer(http.RedirectHandler(other.URL, http.StatusFound))
	t.Cleanup(server.Close)
	text := strings.Replace(good, `server: "https://127.0.0.1:6443"`, `insecure-skip-tls-verify: true, server: "`+server.URL+`"`, 1)
	_, err := Connector{}.Version(t.Context(), []byte(text))
	g.Expect(err).To(MatchError(ContainSubstring("redirects to another address")))
	g.Expect(tokens).To(BeEmpty())
}

func TestReader_cleansKubeconfigs(t *testing.T) {
	g := NewWithT(t)
	object := func(name, text string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}, Data: map[string][]byte{"value": []byte(text), "other": []byte("x")}}
	}
	bad := strings.Replace(good, "token: s3cret", "tokenFile: /var/s3cret", 1)
	reader := Reader{Reader: fake.NewClientBuilder().WithObjects(object("a-kubeconfig", good), object("b-kubeconfig", bad), object("b", bad)).Build()}
	get := func(name string) (*corev1.Secret, error) {
		found := &corev1.Secret{}
		return found, reader.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: name}, found)
	}
	found, err := get("a-kubeconfig")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.Data).To(And(HaveLen(1), HaveKey("value")))
	_, err = get("b-kubeconfig")
	g.Expect(err).To(MatchError(ContainSubstring("refers to files")))
	found, err = get("b")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.Data).To(HaveLen(2), "it is not a kubeconfig")
}

func TestReader_checksTheAddressOfTheServer(t *testing.T) {
	secret := func(server string) *corev1.Secret {
		text := strings.Replace(good, "https://127.0.0.1:6443", server, 1)
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a-kubeconfig"}, Data: map[string][]byte{"value": []byte(text)}}
	}
	for server, allowed := range map[string]bool{
		"https://127.0.0.1:6443": false, "https://localhost": false, "https://169.254.169.254": false, "https://[::ffff:169.254.169.254]": false, "https://10.96.0.1": false,
		"https://10.0.0.1": true, "https://203.0.113.7:6443": true,
	} {
		g := NewWithT(t)
		denied, err := dial.ParseNetworks([]string{"10.96.0.0/12"})
		g.Expect(err).NotTo(HaveOccurred())
		reader := Reader{Reader: fake.NewClientBuilder().WithObjects(secret(server)).Build(), Policy: &dial.Policy{Denied: denied}}
		err = reader.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "a-kubeconfig"}, &corev1.Secret{})
		if allowed {
			g.Expect(err).NotTo(HaveOccurred(), server)
			continue
		}
		g.Expect(err).To(MatchError(dial.ErrDenied), server)
	}
}

func TestCheckKubeconfig_returnsExpiryOfToken(t *testing.T) {
	for name, c := range map[string]struct {
		claims string
		want   time.Time
	}{
		"a token that expires":       {`{"sub":"system:serviceaccount:a:b","exp":1893456000}`, time.Unix(1893456000, 0)},
		"a fraction of a second":     {`{"exp":1893456000.5}`, time.Unix(1893456000, 0)},
		"a token that never expires": {`{"sub":"x"}`, time.Time{}},
		"no claims":                  {`s3cret`, time.Time{}},
		"no time":                    {`{"exp":"tomorrow"}`, time.Time{}},
		"a time that is impossible":  {`{"exp":1e300}`, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			token := "e30." + base64.RawURLEncoding.EncodeToString([]byte(c.claims)) + ".signature"
			expires, err := CheckKubeconfig([]byte(strings.Replace(good, "s3cret", token, 1)))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(expires).To(BeTemporally("==", c.want))
		})
	}
}
