package charts

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
)

// Hosts that exist only behind the proxy of a test.
const (
	internalHost = "registry.example.internal"
	ecrHost      = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"
	ecrAPIHost   = "api.ecr.eu-central-1.amazonaws.com"
)

// registry serves the charts over TLS, with a certificate that no system trusts, to a user
// with a password.
type registry struct {
	// address is that of the server. It also has the certificates of the hosts behind the
	// proxy.
	address, ca string
	refused     atomic.Int32
}

func (h *harness) private(user, password string) *registry {
	h.t.Helper()
	target, err := url.Parse("http://" + h.charts)
	h.Expect(err).NotTo(HaveOccurred())
	charts := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	private := &registry{}
	private.address, private.ca = h.serveTLS(func(w http.ResponseWriter, r *http.Request) {
		if givenUser, given, _ := r.BasicAuth(); givenUser != user || given != password {
			private.refused.Add(1)
			w.Header().Set("WWW-Authenticate", `Basic realm="charts"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
			return
		}
		charts.ServeHTTP(w, r)
	}, "127.0.0.1", internalHost, ecrHost)
	return private
}

// serveTLS serves as hosts, and returns its address and its certificate authority.
func (h *harness) serveTLS(handle http.HandlerFunc, hosts ...string) (address, ca string) {
	h.t.Helper()
	certificate := h.certificate(hosts...)
	server := httptest.NewUnstartedServer(handle)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	h.t.Cleanup(server.Close)
	ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}))
	return strings.TrimPrefix(server.URL, "https://"), ca
}

// certificate returns a certificate that is its own authority.
func (h *harness) certificate(hosts ...string) tls.Certificate {
	h.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	h.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	h.Expect(err).NotTo(HaveOccurred())
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// proxy is the only way to hosts, whose addresses are given, and requires a password. It
// counts the connections.
func (h *harness) proxy(hosts map[string]string) (secret map[string][]byte, connections *atomic.Int32) {
	h.t.Helper()
	connections = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Proxy-Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte("way:out")):
			w.WriteHeader(http.StatusProxyAuthRequired)
		case r.Method != http.MethodConnect || hosts[r.Host] == "":
			http.Error(w, "unexpected host "+r.Host, http.StatusBadGateway)
		default:
			connections.Add(1)
			tunnel(w, hosts[r.Host])
		}
	}))
	h.t.Cleanup(server.Close)
	return map[string][]byte{"address": []byte(server.URL), "username": []byte("way"), "password": []byte("out")}, connections
}

// tunnel connects a client of a proxy with an address.
func tunnel(w http.ResponseWriter, address string) {
	to, err := net.Dial("tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusOK)
	from, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = to.Close()
		return
	}
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}()
	go func() {
		_, _ = io.Copy(from, to)
		_ = from.Close()
	}()
}

// ecr serves ecr:GetAuthorizationToken, which returns a password.
func (h *harness) ecr(password string) (address, ca string) {
	h.t.Helper()
	return h.serveTLS(func(w http.ResponseWriter, r *http.Request) {
		if target := r.Header.Get("X-Amz-Target"); target != "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken" {
			http.Error(w, "unexpected call "+target, http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		_, _ = fmt.Fprintf(w, `{"authorizationData":[{"authorizationToken":%q,"expiresAt":%d,"proxyEndpoint":"https://%s"}]}`,
			base64.StdEncoding.EncodeToString([]byte("AWS:"+password)), time.Now().Add(time.Hour).Unix(), ecrHost)
	}, ecrAPIHost)
}

// install installs Karpenter's chart as CAPT renders it, with the given Secrets.
func (h *harness) install(secrets map[string]map[string][]byte, change func(chart *addonsv1.ChartSource)) {
	h.t.Helper()
	addon := h.addon("karpenter")
	addon.Spec.Connection = nil
	helm := addon.Spec.Helm
	change(&helm.Chart)
	in := render.Input{
		Addon: addon, Cluster: render.Cluster{Name: "demo", Namespace: "default"}, Connection: map[string][]byte{}, ChartSecrets: secrets,
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
}

// login are the Secrets for a registry at an address.
func login(private *registry, address string) map[string]map[string][]byte {
	return map[string]map[string][]byte{
		"login": {
			".dockerconfigjson": fmt.Appendf(nil, `{"auths":{%q:{"username":"robot","password":"hunter2"}}}`, address),
			"username":          []byte("robot"), "password": []byte("hunter2"),
		},
		"ca": {"ca.crt": []byte(private.ca)},
	}
}

// Flux installs a chart from a private registry and from a private Helm repository, with
// what CAPT renders for it.
func TestFlux_installsPrivateCharts(t *testing.T) {
	for name, path := range map[string]string{"registry": "oci://%s/charts", "repository": "https://%s"} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.flux()
			private := h.private("robot", "hunter2")
			h.install(login(private, private.address), func(chart *addonsv1.ChartSource) {
				chart.Repository = fmt.Sprintf(path, private.address)
				chart.SecretRef, chart.CertSecretRef = &infrav1.LocalReference{Name: "login"}, &infrav1.LocalReference{Name: "ca"}
			})
			t.Logf("%d requests had no credentials", private.refused.Load())
		})
	}
}

// The registry of this test has a name that only the proxy knows.
func TestFlux_installsPrivateChartsThroughAProxy(t *testing.T) {
	h := newHarness(t)
	h.flux()
	private := h.private("robot", "hunter2")
	proxy, connections := h.proxy(map[string]string{internalHost + ":443": private.address})
	secrets := login(private, internalHost)
	secrets["proxy"] = proxy
	h.install(secrets, func(chart *addonsv1.ChartSource) {
		chart.Repository = "oci://" + internalHost + "/charts"
		chart.SecretRef, chart.CertSecretRef = &infrav1.LocalReference{Name: "login"}, &infrav1.LocalReference{Name: "ca"}
		chart.ProxySecretRef = &infrav1.LocalReference{Name: "proxy"}
	})
	h.Expect(connections.Load()).To(BeNumerically(">", 0))
}

// A private registry of AWS accepts the identity of Flux, here keys in its environment. The
// names of AWS lead to the servers of this test, through the proxy.
func TestFlux_installsChartsOfECRWithItsIdentity(t *testing.T) {
	h := newHarness(t)
	private := h.private("AWS", "token")
	api, ca := h.ecr("token")
	trusted := filepath.Join(t.TempDir(), "ca.crt")
	h.Expect(os.WriteFile(trusted, []byte(ca), 0o600)).To(Succeed())
	// The SDK does not combine a bundle of its own with Flux's client for a proxy.
	h.flux("SSL_CERT_FILE="+trusted, "AWS_CA_BUNDLE=", "AWS_ACCESS_KEY_ID=flux", "AWS_SECRET_ACCESS_KEY=flux")
	proxy, _ := h.proxy(map[string]string{ecrHost + ":443": private.address, ecrAPIHost + ":443": api})
	secrets := map[string]map[string][]byte{"ca": {"ca.crt": []byte(private.ca)}, "proxy": proxy}
	h.install(secrets, func(chart *addonsv1.ChartSource) {
		chart.Repository, chart.Provider = "oci://"+ecrHost+"/charts", "aws"
		chart.CertSecretRef, chart.ProxySecretRef = &infrav1.LocalReference{Name: "ca"}, &infrav1.LocalReference{Name: "proxy"}
	})
}
