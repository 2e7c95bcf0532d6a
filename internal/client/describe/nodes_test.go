package describe

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/kubernetes/dial"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	_ "github.com/appthrust/capt/internal/testenv/waits"
)

// workloadServer returns a management cluster with the kubeconfig of an API server, which
// answers with the given function what is not discovery.
func workloadServer(t *testing.T, answer http.HandlerFunc) (client.Reader, client.ObjectKey) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api":
			_, _ = fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
		case "/apis":
			_, _ = fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
		case "/api/v1":
			_, _ = fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"nodes","kind":"Node","verbs":["list","watch"]}]}`)
		default:
			answer(w, r)
		}
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	kubeconfig := fmt.Appendf(nil, `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, server.URL, base64.StdEncoding.EncodeToString(ca))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "demo-kubeconfig"}, Data: map[string][]byte{"value": kubeconfig}}
	return fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(secret).Build(), client.ObjectKey{Namespace: "a", Name: "demo"}
}

const noNodes = `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`

// The name of an API server may have another address than when it was checked.
func TestNodes_areNotReadFromDeniedAddresses(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	reader, key := workloadServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, noNodes) })
	g.Expect(ReadNodes(t.Context(), reader, workload.Connector{}, key).Err).NotTo(HaveOccurred())
	g.Expect(ReadNodes(t.Context(), reader, workload.Connector{Policy: &dial.Policy{}}, key).Err).To(MatchError(dial.ErrDenied))
}

func TestWatchNodes_doesNotFollowRedirects(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var lists, reached atomic.Int32
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(target.Close)
	reader, key := workloadServer(t, func(w http.ResponseWriter, r *http.Request) {
		if lists.Add(1) == 1 {
			_, _ = fmt.Fprint(w, noNodes)
			return
		}
		http.Redirect(w, r, target.URL, http.StatusFound)
	})
	policy := &dial.Policy{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	current, _ := WatchNodes(t.Context(), reader, workload.Connector{Policy: policy}, key)
	initialized := true
	current(&Objects{Cluster: &clusterv1.Cluster{Status: clusterv1.ClusterStatus{Initialization: clusterv1.ClusterInitializationStatus{ControlPlaneInitialized: &initialized}}}})
	g.Eventually(lists.Load).Should(BeNumerically(">", 2), "the watch tries again")
	g.Expect(reached.Load()).To(BeZero())
}
