package workload

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/appthrust/capt/internal/kubernetes/dial"
)

// kubeconfig returns a kubeconfig for an API server with the given status codes.
func kubeconfig(t *testing.T, ready, version int) []byte {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/readyz" {
			w.WriteHeader(ready)
			return
		}
		w.WriteHeader(version)
		_, _ = fmt.Fprint(w, `{"major":"1","minor":"33","gitVersion":"v1.33.5-eks-1"}`)
	}))
	t.Cleanup(server.Close)
	return config(server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

func config(address string, ca []byte) []byte {
	return fmt.Appendf(nil, `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {token: s3cret}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, address, base64.StdEncoding.EncodeToString(ca))
}

func TestVersion_explainsErrors(t *testing.T) {
	unused := httptest.NewTLSServer(nil)
	stopped := config(unused.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: unused.Certificate().Raw}))
	unused.Close()
	tests := []struct {
		name   string
		config []byte
		want   string
	}{
		{"ready", kubeconfig(t, 200, 200), ""},
		{"not ready", kubeconfig(t, 500, 200), "the API server returned 500 Internal Server Error"},
		{"expired credentials", kubeconfig(t, 401, 200), "credentials of the kubeconfig are rejected"},
		{"no permission", kubeconfig(t, 403, 200), "has no permission"},
		{"no server", stopped, "connection refused"},
		{"no kubeconfig", []byte("s3cret"), "it is not a valid kubeconfig"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			info, err := Connector{Scheme: runtime.NewScheme()}.Version(t.Context(), tt.config)
			if tt.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(info.GitVersion).To(Equal("v1.33.5-eks-1"))
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(tt.want)))
			g.Expect(err.Error()).NotTo(ContainSubstring("s3cret"))
		})
	}
}

// A user who writes a kubeconfig chooses the server. Its answer must not reach a
// condition, which the user can read.
func TestVersion_doesNotRepeatWhatTheServerAnswers(t *testing.T) {
	for name, answer := range map[string]string{
		"text":   "s3cret",
		"status": `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"s3cret","reason":"s3cret","code":418}`,
		"broken": `{"gitVersion": s3cret`,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if name != "broken" {
					w.WriteHeader(http.StatusTeapot)
				}
				_, _ = fmt.Fprint(w, answer)
			}))
			t.Cleanup(server.Close)
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			_, err := Connector{Scheme: runtime.NewScheme()}.Version(t.Context(), config(server.URL, ca))
			g.Expect(err).To(HaveOccurred())
			g.Expect(err.Error()).NotTo(ContainSubstring("s3cret"))
		})
	}
}

func TestVersion_limitsTheAnswer(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 1<<20)
		for range 4 * maxAnswer >> 20 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	_, err := Connector{Scheme: runtime.NewScheme()}.Version(t.Context(), config(server.URL, ca))
	g.Expect(err).To(HaveOccurred())
}

func TestConnector_connectsToAllowedAddressesOnly(t *testing.T) {
	g := NewWithT(t)
	text := kubeconfig(t, 200, 200)
	_, err := Connector{Scheme: runtime.NewScheme(), Policy: &dial.Policy{}}.Version(t.Context(), text)
	g.Expect(err).To(MatchError(dial.ErrDenied))
	loopback, err := dial.ParseNetworks([]string{"127.0.0.0/8"})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = Connector{Scheme: runtime.NewScheme(), Policy: &dial.Policy{Allowed: loopback}}.Version(t.Context(), text)
	g.Expect(err).NotTo(HaveOccurred())
}
