package connection

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/cluster/workload"
)

// node returns a node with the labels of one of EKS, as the cache has it.
func node(i int) *corev1.Node {
	name := fmt.Sprintf("ip-10-0-%d-%d.ap-northeast-1.compute.internal", i/256, i%256)
	labels := map[string]string{"kubernetes.io/hostname": name, "eks.amazonaws.com/nodegroup-image": fmt.Sprintf("ami-%017d", i)}
	for j := range 20 {
		labels[fmt.Sprintf("topology.kubernetes.io/label-%d", j)] = fmt.Sprintf("value-%d-%d", i, j)
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "5b2ad6a8-5c3b-44ad-9a9f-6a4f2c7d8e10", ResourceVersion: "123456789", Labels: labels, CreationTimestamp: metav1.Now()},
		Spec:       corev1.NodeSpec{ProviderID: fmt.Sprintf("aws:///ap-northeast-1a/i-%017d", i), Taints: []corev1.Taint{{Key: "dedicated", Value: "batch", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status", LastTransitionTime: metav1.Now()}},
			NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: "v1.33.5-eks-1"},
		},
	}
}

// copied returns an object that shares no memory with others.
func copied[T any](t *testing.T, obj any) *T {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	decoded := new(T)
	if err := json.Unmarshal(text, decoded); err != nil {
		t.Fatal(err)
	}
	return decoded
}

func TestWeigh_estimatesTheMemoryOfObjects(t *testing.T) {
	const count = 2000
	for name, create := range map[string]func(i int) client.Object{
		"nodes": func(i int) client.Object { return copied[corev1.Node](t, node(i)) },
		"deployments": func(i int) client.Object {
			text := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d-%d","labels":{"app.kubernetes.io/name":"d-%d"}},"spec":{"replicas":3},"status":{"replicas":3,"readyReplicas":3,"conditions":[{"type":"Available","status":"True","reason":"MinimumReplicasAvailable","message":"Deployment has minimum availability."}]}}`, i, i)
			obj := &unstructured.Unstructured{}
			if err := obj.UnmarshalJSON([]byte(text)); err != nil {
				t.Fatal(err)
			}
			return obj
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			kept := make([]client.Object, 0, count)
			before, weighed := used(), int64(0)
			for i := range count {
				kept = append(kept, create(i))
			}
			grown := int64(used()-before) / count
			for _, obj := range kept {
				weighed += weigh(obj)
			}
			weighed /= count
			t.Logf("%d bytes, estimated as %d", grown, weighed)
			g.Expect(weighed).To(And(BeNumerically(">", grown*3/4), BeNumerically("<", grown*3/2)))
			runtime.KeepAlive(kept)
		})
	}
}

func TestBudget_isEnoughForTheNodesOfALargeCluster(t *testing.T) {
	g := NewWithT(t)
	g.Expect(5000*weigh(node(1))).To(BeNumerically("<", 512<<20*8/10/clusterPart), "with the default memory limit of the manager")
	g.Expect(newMemory().limit).To(BeEquivalentTo(defaultMemory), "without a memory limit")
}

// budgetOf returns the budget of one cluster.
func budgetOf(limit int64) *budget {
	m := newMemory()
	m.limit = clusterPart * limit
	return &budget{memory: m}
}

func TestMemory_isSharedByAllClusters(t *testing.T) {
	g := NewWithT(t)
	m := &memory{limit: 160 << 20, namespaces: map[string]int64{}}
	of := func(namespace string) *usage { return &usage{budget: &budget{memory: m, namespace: namespace}} }
	secrets := kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Secret")}
	first, second, third := of("attacker"), of("attacker"), of("attacker")
	g.Expect(first.changed(20 << 20)).To(BeTrue())
	g.Expect(first.changed(1)).To(BeFalse(), "a cluster")
	g.Expect(first.budget.error(secrets)).To(MatchError(ContainSubstring("the objects of the cluster would need more than 20 MiB")))
	first.changed(-1)
	g.Expect(second.changed(20 << 20)).To(BeTrue())
	g.Expect(third.changed(1)).To(BeFalse(), "the clusters of a namespace")
	g.Expect(third.budget.error(secrets)).To(MatchError(ContainSubstring("the objects of the workload clusters of the namespace would need more than 40 MiB")))
	third.release()
	other := of("other")
	for range 2 {
		g.Expect(of("accomplice").changed(20 << 20)).To(BeTrue())
	}
	g.Expect(other.changed(4<<20)).To(BeTrue(), "it has little")
	g.Expect(other.changed(1)).To(BeFalse(), "all clusters")
	g.Expect(other.changed(0)).To(BeTrue(), "an update of a node")
	g.Expect(other.budget.error(secrets)).To(MatchError(ContainSubstring("the objects of all workload clusters would need more than 80 MiB")))
	other.release()
	g.Expect(m.namespaces).NotTo(HaveKey("other"))
	g.Expect(other.budget.error(secrets)).To(MatchError(ContainSubstring("all workload clusters")), "it is not exceeded any more")
}

func TestObjects_returnTheirMemoryWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		o := newObjects(t, "", large("one"))
		ctx, stop := context.WithCancel(t.Context())
		o.ctx = ctx
		g.Expect(o.List(t.Context(), &corev1.ConfigMapList{})).To(Succeed())
		g.Expect(o.memory.memory.total).To(BeNumerically(">", 100<<10))
		stop()
		synctest.Wait()
		g.Expect(o.memory.memory.total).To(BeZero())
	})
}

const tooMuch = "does not watch ConfigMap of the workload cluster, with which the objects of the cluster would need more than 1 MiB"

// large returns a ConfigMap that needs a fifth of a MiB.
func large(name string) *corev1.ConfigMap {
	obj := configMap("a", name, "x")
	obj.Data = map[string]string{"text": strings.Repeat("x", 100<<10)}
	return obj
}

func TestObjects_limitsTheirMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		o := newObjects(t, "", large("one"), large("two"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		o.memory = budgetOf(1 << 20)
		var list corev1.ConfigMapList
		g.Expect(o.List(t.Context(), &list)).To(Succeed())
		informer, err := o.GetInformer(t.Context(), &corev1.ConfigMap{})
		g.Expect(err).NotTo(HaveOccurred())
		events := make(chan string, 100)
		record(g, informer.AddEventHandler, events)
		// The fake client sends no changes from before the watch.
		synctest.Wait()
		add := func(names ...string) {
			for _, name := range names {
				g.Expect(o.client.Create(t.Context(), large(name))).To(Succeed())
				synctest.Wait()
			}
		}
		add("three", "four")
		g.Expect(o.List(t.Context(), &list)).To(Succeed())
		g.Expect(list.Items).To(HaveLen(4))

		add("five", "six")
		g.Expect(o.List(t.Context(), &list)).To(MatchError(ContainSubstring(tooMuch)))
		g.Expect(o.Get(t.Context(), client.ObjectKeyFromObject(large("one")), &corev1.ConfigMap{})).To(MatchError(ContainSubstring(tooMuch)))
		g.Expect(o.Get(t.Context(), client.ObjectKey{Name: "n"}, &corev1.Node{})).To(Succeed(), "other kinds still have memory")
		var got []string
		for len(events) > 0 {
			got = append(got, <-events)
		}
		g.Expect(got).To(ContainElements("delete one", "delete five"), "controllers observe it")

		time.Sleep(limitRetry + time.Minute)
		g.Expect(o.List(t.Context(), &list)).To(MatchError(ContainSubstring(tooMuch)), "it is still too large")
		for _, name := range []string{"one", "two", "three"} {
			g.Expect(o.client.Delete(t.Context(), large(name))).To(Succeed())
		}
		time.Sleep(limitRetry + time.Minute)
		g.Expect(o.List(t.Context(), &list)).To(Succeed())
		g.Expect(list.Items).To(HaveLen(3))
		g.Expect(events).To(Receive(HavePrefix("add")))
		g.Expect(o.client.Delete(t.Context(), large("four"))).To(Succeed())
		synctest.Wait()
		g.Expect(o.memory.used).To(BeNumerically("~", 2*weigh(large("five"))+weigh(&corev1.Node{}), 1<<10))
	})
}

// lists is an API server with ConfigMaps.
type lists struct {
	*httptest.Server

	streams bool
	text    string
	mu      sync.Mutex
	sent    int
	pages   []string
}

func newLists(t *testing.T, streams bool, size int) (*lists, *objects) {
	t.Helper()
	s := &lists{streams: streams, text: strings.Repeat("x", size)}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	config, err := workload.Connector{}.LastingConfig(fmt.Appendf(nil, `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, s.URL, base64.StdEncoding.EncodeToString(ca)))
	if err != nil {
		t.Fatal(err)
	}
	config.Timeout = listTimeout
	lookup, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(config, client.Options{Mapper: newMapper(lookup)})
	if err != nil {
		t.Fatal(err)
	}
	o := &objects{client: c, ctx: t.Context(), memory: budgetOf(1 << 20), informers: map[kind]*informer{}, transform: func(in any) (any, error) {
		in.(*corev1.ConfigMap).Annotations = nil
		return in, nil
	}}
	return s, o
}

// ServeHTTP implements http.Handler. A stream never ends, and a list has four objects.
func (s *lists) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	object := func(i int) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"a","name":"n%d","resourceVersion":"1","annotations":{"a":"%s"}},"data":{"a":"b"}}`, i, s.text)
	}
	switch {
	case query.Get("sendInitialEvents") == "true" && !s.streams:
		w.WriteHeader(http.StatusUnprocessableEntity)
	case query.Get("sendInitialEvents") == "true":
		for i := 0; r.Context().Err() == nil; i++ {
			fmt.Fprintf(w, `{"type":"ADDED","object":%s}`, object(i))
			s.mu.Lock()
			s.sent++
			s.mu.Unlock()
		}
	case query.Get("watch") != "":
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	default:
		limit, _ := strconv.Atoi(query.Get("limit"))
		from, _ := strconv.Atoi(query.Get("continue"))
		next, items := "", []string{}
		for i := from; i < 4 && i < from+limit; i++ {
			items = append(items, object(i))
		}
		if from+limit < 4 {
			next = strconv.Itoa(from + limit)
		}
		s.mu.Lock()
		s.pages = append(s.pages, fmt.Sprintf("%d of %d", limit, from))
		s.mu.Unlock()
		fmt.Fprintf(w, `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"1","continue":%q},"items":[%s]}`, next, strings.Join(items, ","))
	}
}

func TestObjects_limitsAStreamThatDoesNotEnd(t *testing.T) {
	g := NewWithT(t)
	s, o := newLists(t, true, 10)
	g.Expect(o.List(t.Context(), &corev1.ConfigMapList{})).To(MatchError(ContainSubstring(tooMuch)))
	s.mu.Lock()
	defer s.mu.Unlock()
	g.Expect(s.sent).To(BeNumerically("<", 100_000), "the stream has ended")
}

func TestObjects_readsLargeObjectsInSmallPages(t *testing.T) {
	g := NewWithT(t)
	s, o := newLists(t, false, 3<<20)
	var list corev1.ConfigMapList
	g.Expect(o.List(t.Context(), &list)).To(Succeed())
	g.Expect(list.Items).To(HaveLen(4))
	s.mu.Lock()
	defer s.mu.Unlock()
	g.Expect(s.pages).To(HaveExactElements("100 of 0", "50 of 0", "25 of 0", "12 of 0", "6 of 0", "3 of 0", "1 of 0", "1 of 1", "1 of 2", "1 of 3"))
	g.Expect(o.memory.used).To(BeNumerically("<", 10<<10), "what is not kept is not counted")
}
