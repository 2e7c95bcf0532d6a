package workload

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

func TestRenew_changesOnlyTheToken(t *testing.T) {
	g := NewWithT(t)
	var tokens []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { tokens = append(tokens, r.Header.Get("Authorization")) }))
	t.Cleanup(server.Close)
	text := strings.Replace(good, `server: "https://127.0.0.1:6443"`, `insecure-skip-tls-verify: true, server: "`+server.URL+`"`, 1)
	lasting, err := Connector{}.LastingConfig([]byte(text))
	g.Expect(err).NotTo(HaveOccurred())
	own, err := OwnConfig([]byte(text), &rest.Config{Host: server.URL})
	g.Expect(err).NotTo(HaveOccurred())
	for _, config := range []*rest.Config{lasting, own} {
		tokens = nil
		// A copy has the same token.
		client, err := rest.HTTPClientFor(rest.CopyConfig(config))
		g.Expect(err).NotTo(HaveOccurred())
		send := func() {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
			g.Expect(err).NotTo(HaveOccurred())
			response, err := client.Do(request)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(response.Body.Close()).To(Succeed())
		}
		send()
		g.Expect(Renew(config, []byte(strings.Replace(text, "s3cret", "renewed", 1)))).To(BeTrue())
		send()
		for name, other := range map[string]string{
			"server":      strings.Replace(text, server.URL, "https://10.0.0.1", 1),
			"certificate": strings.Replace(text, "insecure-skip-tls-verify: true, ", "", 1),
			"user":        strings.Replace(text, "token: s3cret", "username: u, password: p", 1),
			"nothing":     "s3cret",
		} {
			g.Expect(Renew(config, []byte(other))).To(BeFalse(), name)
		}
		send()
		g.Expect(tokens).To(Equal([]string{"Bearer s3cret", "Bearer renewed", "Bearer renewed"}))
	}
	g.Expect(Renew(&rest.Config{}, []byte(text))).To(BeFalse())
}
