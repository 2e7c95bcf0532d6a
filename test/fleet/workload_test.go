package fleet

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/appthrust/capt/internal/testenv"
)

// workloadDomain is the domain of the workload clusters.
const workloadDomain = ".fleet.test"

// startWorkloads starts the API server of all workload clusters, because two hundred of
// them would need too much memory. It returns a kubeconfig in which CLUSTER stands for the
// name of the cluster. Each cluster has a connection of its own, and has only the Secrets
// of the namespace with its name.
func startWorkloads(t *testing.T, env *testenv.Environment) string {
	t.Helper()
	transport, err := rest.TransportFor(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(env.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	ca, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, []string{"*" + workloadDomain})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(ca, key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Authorization")
			if r.In.URL.Path == "/api/v1/secrets" {
				cluster := strings.TrimSuffix(r.In.TLS.ServerName, workloadDomain)
				r.Out.URL.Path = "/api/v1/namespaces/" + cluster + "/secrets"
			}
		},
	})
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}
	server.EnableHTTP2 = true
	server.StartTLS()
	// Close of a test server waits for the watches of managers that are still running.
	t.Cleanup(func() { _ = server.Config.Close() })
	return fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, tls-server-name: CLUSTER%s, certificate-authority-data: %s}}]
users: [{name: u, user: {token: fleet}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, server.URL, workloadDomain, base64.StdEncoding.EncodeToString(ca))
}

// createWorkload creates the namespace that a workload cluster has.
func createWorkload(t *testing.T, env *testenv.Environment, cluster string) {
	t.Helper()
	if err := env.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster}}); err != nil {
		t.Fatal(err)
	}
}
