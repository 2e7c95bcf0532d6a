package fleet

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/appthrust/capt/internal/testenv"
)

// workloadDomain is the domain of the workload clusters.
const workloadDomain = ".fleet.test"

// workloads are the API servers of all workload clusters.
type workloads struct {
	// kubeconfig has CLUSTER in place of the name of the cluster.
	kubeconfig string

	mutex sync.Mutex
	// watchers are the clusters whose Secrets are watched.
	watchers map[string]bool
}

// watched returns the number of clusters of which a watch of Secrets was started since the
// last call of forget.
func (w *workloads) watched() int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.watchers)
}

func (w *workloads) forget() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	clear(w.watchers)
}

func (w *workloads) see(cluster string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.watchers[cluster] = true
}

// startWorkloads starts one API server for all workload clusters, because two hundred of
// them would need too much memory. Each cluster has a connection of its own, and has only the
// Secrets of the namespace with its name.
func startWorkloads(t *testing.T, env *testenv.Environment) *workloads {
	t.Helper()
	w := &workloads{watchers: map[string]bool{}}
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
				if watch := r.In.URL.Query().Get("watch"); watch == "1" || watch == "true" {
					w.see(cluster)
				}
			}
		},
	})
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}
	server.EnableHTTP2 = true
	server.StartTLS()
	// Close of a test server waits for the watches of managers that are still running.
	t.Cleanup(func() { _ = server.Config.Close() })
	w.kubeconfig = fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, tls-server-name: CLUSTER%s, certificate-authority-data: %s}}]
users: [{name: u, user: {token: fleet}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, server.URL, workloadDomain, base64.StdEncoding.EncodeToString(ca))
	return w
}

// createWorkload creates the namespace that a workload cluster has.
func createWorkload(t *testing.T, env *testenv.Environment, cluster string) {
	t.Helper()
	if err := env.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster}}); err != nil {
		t.Fatal(err)
	}
}
