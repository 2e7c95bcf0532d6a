package connection

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/kubernetes/dial"
	_ "github.com/appthrust/capt/internal/testenv/waits"
)

var key = client.ObjectKey{Namespace: "team", Name: "production"}

// apiServer is the API server of a workload cluster. It accepts one token.
type apiServer struct {
	*httptest.Server

	mu       sync.Mutex
	token    string
	down     bool
	versions map[string][]metav1.APIResource
	paths    []string
	// aggregated reports whether all kinds were asked for at once.
	aggregated bool
	// pod is the answer to a request for the pod of the manager.
	pod string
}

func newServer(t *testing.T) *apiServer {
	t.Helper()
	s := startServer()
	t.Cleanup(s.Close)
	return s
}

func startServer() *apiServer {
	s := &apiServer{token: "first", versions: map[string][]metav1.APIResource{
		"v1": {{Name: "nodes", Kind: "Node"}, {Name: "nodes/status", Kind: "Node"}, {Name: "pods", Kind: "Pod", Namespaced: true}},
	}}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = true
	s.StartTLS()
	return s
}

func (s *apiServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// ServeHTTP implements http.Handler.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/api/v1/secrets" {
		serveSecrets(w, r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paths = append(s.paths, r.Proto+" "+r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/"), "/api/")
	switch {
	case r.Header.Get("Authorization") != "Bearer "+s.token:
		w.WriteHeader(http.StatusUnauthorized)
	case s.down:
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == "/version":
	case s.versions[path] != nil:
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{GroupVersion: path, APIResources: s.versions[path]})
	case r.URL.Path == "/api":
		_ = json.NewEncoder(w).Encode(metav1.APIVersions{Versions: []string{"v1"}})
	case r.URL.Path == "/apis":
		s.aggregated = s.aggregated || strings.Contains(r.Header.Get("Accept"), "apidiscovery.k8s.io")
		_ = json.NewEncoder(w).Encode(s.groups())
	case r.URL.Path == "/api/v1/pods":
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: "chosen by the server"})
	case strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/capt-system/pods/"):
		_, _ = w.Write([]byte(s.pod))
	case r.URL.Path == "/api/v1/nodes/n":
		_ = json.NewEncoder(w).Encode(corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (s *apiServer) groups() metav1.APIGroupList {
	list := metav1.APIGroupList{Groups: []metav1.APIGroup{}}
	for version := range s.versions {
		if group, number, found := strings.Cut(version, "/"); found {
			of := metav1.GroupVersionForDiscovery{GroupVersion: version, Version: number}
			list.Groups = append(list.Groups, metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{of}, PreferredVersion: of})
		}
	}
	return list
}

// kubeconfig returns the Secret of the kubeconfig.
func (s *apiServer) kubeconfig(token string) *corev1.Secret {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name + "-kubeconfig"},
		Data: map[string][]byte{"value": fmt.Appendf(nil, `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {token: %s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, s.URL, base64.StdEncoding.EncodeToString(ca), token)},
	}
}

// fixture is a Cache with one cluster, and a clock.
type fixture struct {
	*WithT

	t      *testing.T
	server *apiServer
	cache  *Cache
	client client.Client
	now    time.Time
	events chan client.ObjectKey
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	f := &fixture{WithT: NewWithT(t), t: t, server: newServer(t), now: time.Now(), events: make(chan client.ObjectKey, 10)}
	scheme := runtime.NewScheme()
	f.Expect(corev1.AddToScheme(scheme)).To(Succeed())
	f.Expect(clusterv1.AddToScheme(scheme)).To(Succeed())
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	f.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, cluster)...).Build()
	policy := &dial.Policy{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	f.cache = newCache(t.Context(), Options{
		Clusters: f.client, Secrets: workload.Reader{Reader: f.client, Policy: policy}, Metadata: f.client, Connector: workload.Connector{Policy: policy},
		Scheme: scheme, Now: func() time.Time { return f.now },
	})
	t.Cleanup(f.cache.stop)
	f.subscribe()
	return f
}

// subscribe records the events of a source, as a controller does.
func (f *fixture) subscribe() {
	s := newClusterSource([]clustercache.GetClusterSourceOption{clustercache.WatchForProbeFailure(25 * time.Second)})
	f.cache.sources = append(f.cache.sources, s)
	go func() {
		for {
			select {
			case e := <-s.events:
				f.events <- client.ObjectKeyFromObject(e.Object)
			case <-f.cache.ctx.Done():
				return
			}
		}
	}()
}

// expectNoEvent checks that there was no event since the last one: the next is that of this
// function.
func (f *fixture) expectNoEvent(explanation string) {
	f.t.Helper()
	marker := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "marker"}}
	f.cache.sources[0].events <- event.GenericEvent{Object: marker}
	var next client.ObjectKey
	f.Eventually(f.events).Should(Receive(&next))
	f.Expect(next).To(Equal(client.ObjectKeyFromObject(marker)), explanation)
}

// reconcile reconciles the cluster after some time, and returns when to do so again.
func (f *fixture) reconcile(later time.Duration) time.Duration {
	f.t.Helper()
	f.now = f.now.Add(later)
	result, err := f.cache.Reconcile(f.t.Context(), ctrl.Request{NamespacedName: key})
	f.Expect(err).NotTo(HaveOccurred())
	return result.RequeueAfter
}

func TestCache_readsFromTheConnectedCluster(t *testing.T) {
	f := newFixture(t)
	f.Expect(f.client.Create(t.Context(), f.server.kubeconfig("first"))).To(Succeed())
	f.Expect(f.reconcile(0)).To(Equal(probeInterval))
	f.Eventually(f.events).Should(Receive(Equal(key)))

	c, err := f.cache.GetUncachedClient(t.Context(), key)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(c.Get(t.Context(), client.ObjectKey{Name: "n"}, &corev1.Node{})).To(Succeed())
	f.Expect(c.Get(t.Context(), client.ObjectKey{Name: "n"}, &corev1.Node{})).To(Succeed())
	f.Expect(f.server.paths).To(HaveExactElements("HTTP/2.0 /version", "HTTP/2.0 /api/v1/nodes/n", "HTTP/2.0 /api/v1/nodes/n"), "kinds that every API server has are not looked up")
}

func TestCache_connectsWhenTheKubeconfigAppears(t *testing.T) {
	f := newFixture(t)
	f.Expect(f.reconcile(0)).To(Equal(minRetry))
	_, err := f.cache.GetClient(t.Context(), key)
	f.Expect(err).To(MatchError(clustercache.ErrClusterNotConnected))
	f.Expect(f.reconcile(minRetry)).To(Equal(2 * minRetry))
	for range 5 {
		f.reconcile(maxRetry)
	}
	f.Expect(f.reconcile(maxRetry)).To(Equal(maxRetry), "the delay is limited")

	f.Expect(f.client.Create(t.Context(), f.server.kubeconfig("first"))).To(Succeed())
	f.reconcile(time.Second)
	f.Expect(f.server.paths).To(BeEmpty(), "the attempts do not depend on other events")
	f.reconcile(maxRetry)
	_, err = f.cache.GetClient(t.Context(), key)
	f.Expect(err).NotTo(HaveOccurred())
}

// ending returns a function that reports whether the watches of the connection have ended.
func (f *fixture) ending() func() bool {
	f.t.Helper()
	ended, opened := false, f.cache.accessor(key).open
	stop := opened.stop
	opened.stop = func() { ended = true; stop() }
	return func() bool { return ended }
}

// change changes the kubeconfig.
func (f *fixture) change(secret *corev1.Secret) {
	f.t.Helper()
	existing := secret.DeepCopy()
	f.Expect(f.client.Get(f.t.Context(), client.ObjectKeyFromObject(secret), existing)).To(Succeed())
	existing.Data = secret.Data
	f.Expect(f.client.Update(f.t.Context(), existing)).To(Succeed())
}

func TestCache_followsARenewedToken(t *testing.T) {
	for name, prepare := range map[string]func(f *fixture){
		"before it expires":             func(*fixture) {},
		"before the change is observed": func(f *fixture) { f.cache.options.Metadata = stale{f.cache.options.Metadata, "1"} },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.Expect(f.client.Create(t.Context(), f.server.kubeconfig("first"))).To(Succeed())
			prepare(f)
			f.reconcile(0)
			f.Eventually(f.events).Should(Receive())
			before, err := f.cache.GetUncachedClient(t.Context(), key)
			f.Expect(err).NotTo(HaveOccurred())
			ended := f.ending()

			f.change(f.server.kubeconfig("second"))
			f.server.set(func() { f.server.token = "second" })
			f.Expect(f.reconcile(probeInterval)).To(Equal(probeInterval))
			after, err := f.cache.GetUncachedClient(t.Context(), key)
			f.Expect(err).NotTo(HaveOccurred(), "there is a connection all the time")
			f.Expect(after).To(BeIdenticalTo(before))
			f.Expect(after.Get(t.Context(), client.ObjectKey{Name: "n"}, &corev1.Node{})).To(Succeed())
			f.Expect(ended()).To(BeFalse(), "watches outlive their token")
			f.expectNoEvent("nothing has changed for the controllers")
			f.Expect(f.cache.GetHealthCheckingState(t.Context(), key)).To(Equal(clustercache.HealthCheckingState{LastProbeTime: f.now, LastProbeSuccessTime: f.now}))
		})
	}
}

// stale returns an old version of all objects.
type stale struct {
	client.Reader

	version string
}

// Get implements client.Reader.
func (s stale) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := s.Reader.Get(ctx, key, obj, opts...)
	obj.SetResourceVersion(s.version)
	return err
}

func TestCache_followsAnotherServer(t *testing.T) {
	f := newFixture(t)
	f.Expect(f.client.Create(t.Context(), f.server.kubeconfig("first"))).To(Succeed())
	f.reconcile(0)
	f.Eventually(f.events).Should(Receive())
	ended := f.ending()
	other := newServer(t)
	f.change(other.kubeconfig("first"))
	f.Expect(f.reconcile(probeInterval)).To(Equal(probeInterval))
	c, err := f.cache.GetUncachedClient(t.Context(), key)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(c.Get(t.Context(), client.ObjectKey{Name: "n"}, &corev1.Node{})).To(Succeed())
	f.Expect(other.paths).To(ContainElement("HTTP/2.0 /api/v1/nodes/n"))
	f.Expect(ended()).To(BeTrue(), "the watches of the previous server end")
	f.Eventually(f.events).Should(Receive(), "the controllers watch the other server")
}

func TestCache_keepsAConnectionWhileTheNextServerIsTried(t *testing.T) {
	f := newFixture(t)
	f.Expect(f.client.Create(t.Context(), f.server.kubeconfig("first"))).To(Succeed())
	f.reconcile(0)
	other := newServer(t)
	other.set(func() { other.down = true })
	f.change(other.kubeconfig("first"))
	for range maxFailures - 1 {
		f.Expect(f.reconcile(probeInterval)).To(Equal(probeInterval))
		_, err := f.cache.GetClient(t.Context(), key)
		f.Expect(err).NotTo(HaveOccurred())
	}
	f.reconcile(probeInterval)
	_, err := f.cache.GetClient(t.Context(), key)
	f.Expect(err).To(MatchError(clustercache.ErrClusterNotConnected))
}

func TestCache_disconnectsAClusterThatRejectsTheKubeconfig(t *testing.T) {
	f := newFixture(t)
	f.Expect(f.client.Create(t.Context(), f.server.kubeconfig("first"))).To(Succeed())
	f.reconcile(0)
	f.server.set(func() { f.server.token = "second" })
	f.Expect(f.reconcile(probeInterval)).To(Equal(minRetry))
	_, err := f.cache.GetClient(t.Context(), key)
	f.Expect(err).To(MatchError(clustercache.ErrClusterNotConnected))
}

func TestCache_disconnectsAClusterThatDoesNotAnswer(t *testing.T) {
	f := newFixture(t)
	f.Expect(f.client.Create(t.Context(), f.server.kubeconfig("first"))).To(Succeed())
	f.reconcile(0)
	f.Eventually(f.events).Should(Receive())
	f.server.set(func() { f.server.down = true })
	for range 2 {
		f.reconcile(probeInterval)
	}
	f.expectNoEvent("it has not answered for less than 25 s")
	f.Expect(f.cache.GetHealthCheckingState(t.Context(), key).ConsecutiveFailures).To(Equal(2))
	f.reconcile(probeInterval)
	f.Eventually(f.events).Should(Receive(), "it has not answered for 25 s")
	_, err := f.cache.GetClient(t.Context(), key)
	f.Expect(err).NotTo(HaveOccurred(), "the cache can still be read")
	for range maxFailures - 3 {
		f.reconcile(probeInterval)
	}
	_, err = f.cache.GetClient(t.Context(), key)
	f.Expect(err).To(MatchError(clustercache.ErrClusterNotConnected))
	f.Eventually(f.events).Should(Receive())

	f.server.set(func() { f.server.down = false })
	f.reconcile(maxRetry)
	_, err = f.cache.GetClient(t.Context(), key)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(f.cache.GetHealthCheckingState(t.Context(), key).ConsecutiveFailures).To(BeZero())
}

func TestCache_forgetsADeletedCluster(t *testing.T) {
	f := newFixture(t)
	f.Expect(f.client.Create(t.Context(), f.server.kubeconfig("first"))).To(Succeed())
	f.reconcile(0)
	f.Expect(f.client.Delete(t.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})).To(Succeed())
	f.Expect(f.reconcile(0)).To(BeZero())
	_, err := f.cache.GetClient(t.Context(), key)
	f.Expect(err).To(MatchError(clustercache.ErrClusterNotConnected))
	f.Expect(f.cache.accessors).To(BeEmpty())
}

func TestCache_doesNotConnectToDeniedAddresses(t *testing.T) {
	f := newFixture(t)
	f.Expect(f.client.Create(t.Context(), f.server.kubeconfig("first"))).To(Succeed())
	denied := &dial.Policy{}
	f.cache.options.Connector.Policy = denied
	f.reconcile(0)
	_, err := f.cache.GetClient(t.Context(), key)
	f.Expect(err).To(MatchError(clustercache.ErrClusterNotConnected))
	_, err = f.cache.connectFirst(t.Context(), key)
	f.Expect(err).To(MatchError(dial.ErrDenied))
	f.Expect(f.server.paths).To(BeEmpty())
}

func TestCache_logsWhichClusterCannotBeWatched(t *testing.T) {
	f := newFixture(t)
	lines := make(chan string, 1000)
	f.cache.ctx = klog.NewContext(f.cache.ctx, funcr.New(func(_, text string) { lines <- text }, funcr.Options{}))
	f.Expect(f.client.Create(t.Context(), f.server.kubeconfig("first"))).To(Succeed())
	f.reconcile(0)
	c, err := f.cache.GetClient(t.Context(), key)
	f.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() { _ = c.List(ctx, &corev1.PodList{}) }()
	f.Eventually(lines).Should(Receive(And(ContainSubstring(key.Namespace), ContainSubstring(key.Name), ContainSubstring("has no permission"), Not(ContainSubstring("chosen by the server")))))
}

func TestCache_findsKindsThatAreInstalledLater(t *testing.T) {
	f := newFixture(t)
	f.Expect(f.client.Create(t.Context(), f.server.kubeconfig("first"))).To(Succeed())
	f.reconcile(0)
	c, err := f.cache.GetClient(t.Context(), key)
	f.Expect(err).NotTo(HaveOccurred())
	kind := schema.GroupKind{Group: "example.com", Kind: "Widget"}

	_, err = c.RESTMapper().RESTMapping(kind, "v2")
	f.Expect(meta.IsNoMatchError(err)).To(BeTrue(), "%v", err)
	_, err = c.RESTMapper().RESTMapping(kind)
	f.Expect(meta.IsNoMatchError(err)).To(BeTrue(), "%v", err)
	_, err = c.RESTMapper().RESTMapping(schema.GroupKind{Kind: "Gadget"}, "v1")
	f.Expect(meta.IsNoMatchError(err)).To(BeTrue(), "%v", err)

	f.server.set(func() {
		f.server.versions["example.com/v2"] = []metav1.APIResource{{Name: "widgets", Kind: "Widget", Namespaced: true}}
	})
	mapping, err := c.RESTMapper().RESTMapping(kind)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(mapping.Resource).To(Equal(schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "widgets"}))
	f.Expect(mapping.Scope).To(Equal(meta.RESTScopeNamespace))
	f.Expect(f.server.aggregated).To(BeFalse(), "the kinds of one group are read")
	f.server.set(func() { f.server.down = true })
	_, err = c.RESTMapper().RESTMapping(kind, "v2")
	f.Expect(err).NotTo(HaveOccurred(), "it is known")
	_, err = c.RESTMapper().RESTMapping(schema.GroupKind{Group: "other.example.com", Kind: "Gadget"}, "v1")
	f.Expect(err).To(HaveOccurred())
	f.Expect(meta.IsNoMatchError(err)).To(BeFalse(), "an API server that does not answer may have the kind")
}
