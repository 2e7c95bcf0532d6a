package charts

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
)

// private serves the charts over TLS, with a certificate that no system trusts, to a user
// with a password.
func (h *harness) private() (address, ca string, refused *atomic.Int32) {
	h.t.Helper()
	target, err := url.Parse("http://" + h.charts)
	h.Expect(err).NotTo(HaveOccurred())
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	refused = &atomic.Int32{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "robot" || password != "hunter2" {
			refused.Add(1)
			w.Header().Set("WWW-Authenticate", `Basic realm="charts"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	h.t.Cleanup(server.Close)
	ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	return strings.TrimPrefix(server.URL, "https://"), ca, refused
}

// Flux installs a chart from a private registry and from a private Helm repository, with
// what CAPT renders for it.
func TestFlux_installsPrivateCharts(t *testing.T) {
	for name, path := range map[string]string{"registry": "oci://%s/charts", "repository": "https://%s"} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.flux()
			address, ca, refused := h.private()
			addon := h.addon("karpenter")
			addon.Spec.Connection = nil
			helm := addon.Spec.Helm
			helm.Chart.Repository = fmt.Sprintf(path, address)
			helm.Chart.SecretRef, helm.Chart.CertSecretRef = &infrav1.LocalReference{Name: "login"}, &infrav1.LocalReference{Name: "ca"}
			in := render.Input{
				Addon: addon, Cluster: render.Cluster{Name: "demo", Namespace: "default"}, Connection: map[string][]byte{},
				ChartSecrets: map[string]map[string][]byte{
					"login": {
						".dockerconfigjson": fmt.Appendf(nil, `{"auths":{%q:{"username":"robot","password":"hunter2"}}}`, address),
						"username":          []byte("robot"), "password": []byte("hunter2"),
					},
					"ca": {"ca.crt": []byte(ca)},
				},
			}
			for _, v := range helm.ValuesFrom {
				in.Connection[v.ValuesKey] = []byte(odd(v.ValuesKey))
			}
			rendered, err := render.Render(in)
			h.Expect(err).NotTo(HaveOccurred())
			for _, text := range rendered.Data {
				h.create(string(text))
			}
			h.ready(helm.Namespace, addon.Name, helm.Chart.Version)
			t.Logf("%d requests had no credentials", refused.Load())
		})
	}
}
