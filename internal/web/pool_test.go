package web

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"weak"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func versioned(uid, resourceVersion, name string) *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(uid), ResourceVersion: resourceVersion}}
}

// shared returns what is stored of an object.
func shared(g *WithT, p pools, obj client.Object) any {
	stored, err := p.transform(obj)
	g.Expect(err).NotTo(HaveOccurred())
	return stored
}

func TestPools_usersShareEqualObjects(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	p := newPools()
	first := versioned("u", "1", "demo")
	g.Expect(shared(g, p, first)).To(BeIdenticalTo(first))
	g.Expect(shared(g, p, versioned("u", "1", "demo"))).To(BeIdenticalTo(first))
	g.Expect(shared(g, p, first)).To(BeIdenticalTo(first), "informers pass some objects twice")
	g.Expect(shared(g, p, versioned("u", "2", "demo"))).NotTo(BeIdenticalTo(first), "another version")
	other := versioned("u", "1", "changed")
	g.Expect(shared(g, p, other)).To(BeIdenticalTo(other), "users see what they received")
	g.Expect(shared(g, p, versioned("u", "1", "demo"))).To(BeIdenticalTo(first))
	unknown := versioned("", "", "demo")
	g.Expect(shared(g, p, unknown)).To(BeIdenticalTo(unknown))
	g.Expect(shared(g, nil, unknown)).To(BeIdenticalTo(unknown), "one user has no pools")
	tombstone := toolscache.DeletedFinalStateUnknown{Key: "a/demo", Obj: first}
	stored, err := p.transform(tombstone)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stored).To(Equal(tombstone))
	runtime.KeepAlive(first)
}

func TestPools_forgetWhatNoUserHas(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	p := &pool[clusterv1.Cluster, *clusterv1.Cluster]{copies: map[version]weak.Pointer[clusterv1.Cluster]{}}
	for i := range 100 {
		p.share(versioned("u", fmt.Sprint(i), "demo"))
	}
	g.Eventually(func() int {
		runtime.GC()
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.copies)
	}).Should(BeZero())
}

func TestTrim_keepsWhatViewsShow(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	meta := metav1.ObjectMeta{Namespace: "a", Name: "n", UID: "u", ResourceVersion: "1", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "{}"}}
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: meta}
	apply.Spec.TemplateRef.Name, apply.Spec.RequiredOutputs = "vpc", []string{"x"}
	apply.Status.Runs = 3
	trim(apply)
	g.Expect(apply.Annotations).To(BeEmpty())
	g.Expect(apply.Labels).To(HaveLen(1))
	g.Expect(apply.Spec).To(Equal(infrav1.WorkspaceTemplateApplySpec{TemplateRef: apply.Spec.TemplateRef}))
	g.Expect(apply.Status.Runs).To(Equal(int64(3)))

	addon := &addonsv1.CAPTAddon{ObjectMeta: meta}
	addon.Spec.Manifests = []addonsv1.ManifestSource{{Name: "m", Inline: "large"}}
	addon.Spec.Helm = &addonsv1.HelmRelease{Namespace: "n"}
	addon.Spec.Helm.Chart.Name = "chart"
	trim(addon)
	g.Expect(addon.Spec.Manifests).To(BeEmpty())
	g.Expect(addon.Spec.Helm.Chart.Name).To(Equal("chart"))

	own := &corev1.Event{ObjectMeta: meta, InvolvedObject: corev1.ObjectReference{APIVersion: infrav1.GroupVersion.String(), Kind: "CAPTCluster", Name: "n", UID: "x"}, Reason: "R", Message: "M", Count: 2, Action: "Act"}
	want, found := newEvent(own.DeepCopy())
	g.Expect(found).To(BeTrue())
	trim(own)
	got, found := newEvent(own)
	g.Expect(found).To(BeTrue())
	g.Expect(got).To(Equal(want))
	g.Expect(own.Action).To(BeEmpty())
	foreign := &corev1.Event{ObjectMeta: meta, InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod"}, Message: "large"}
	trim(foreign)
	g.Expect(foreign.Message).To(BeEmpty())
	g.Expect(foreign.UID).To(Equal(types.UID("u")))
}

// manyObjects returns the JSON of the objects of clusters.
func manyObjects(g *WithT, clusters int) [][]byte {
	var all [][]byte
	add := func(obj client.Object, kind, cluster string) {
		name := cluster + "-" + kind
		obj.SetNamespace("team")
		obj.SetName(name)
		obj.SetUID(types.UID(name))
		obj.SetResourceVersion("1")
		obj.SetLabels(map[string]string{clusterv1.ClusterNameLabel: cluster})
		obj.SetAnnotations(map[string]string{corev1.LastAppliedConfigAnnotation: strings.Repeat("x", 1000)})
		content, err := json.Marshal(obj)
		g.Expect(err).NotTo(HaveOccurred())
		all = append(all, content)
	}
	conditions := make([]metav1.Condition, 8)
	for i := range conditions {
		conditions[i] = metav1.Condition{Type: fmt.Sprint("Condition", i), Status: "True", Reason: "Ready", Message: strings.Repeat("m", 60), LastTransitionTime: day}
	}
	for i := range clusters {
		name := fmt.Sprintf("c%04d", i)
		cluster := &clusterv1.Cluster{}
		cluster.Status.Conditions = conditions
		add(cluster, "cluster", name)
		infrastructure := &infrav1.CAPTCluster{}
		infrastructure.Status.Conditions = conditions
		add(infrastructure, "infrastructure", name)
		controlPlane := &controlplanev1.CAPTControlPlane{}
		controlPlane.Status.Conditions = conditions
		add(controlPlane, "controlplane", name)
		for _, kind := range []string{"vpc", "eks"} {
			apply := &infrav1.WorkspaceTemplateApply{}
			apply.Status.Conditions = conditions
			apply.Status.Plan = &infrav1.PlanStatus{ID: "plan-1"}
			for change := range 20 {
				apply.Status.Plan.Changes = append(apply.Status.Plan.Changes, infrav1.ResourceChange{Address: fmt.Sprintf("module.network.aws_subnet.private[%d]", change), Action: "create"})
			}
			add(apply, kind, name)
		}
	}
	return all
}

// TestPools_limitTheMemoryOfUsers is not parallel, because it measures the heap.
func TestPools_limitTheMemoryOfUsers(t *testing.T) {
	g := NewWithT(t)
	content := manyObjects(g, 1000)
	p := newPools()
	var users []any
	login := func() {
		store := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
		objects := newObjects()
		handler := objects.handler("Test")
		for i, text := range content {
			obj := []client.Object{&clusterv1.Cluster{}, &infrav1.CAPTCluster{}, &controlplanev1.CAPTControlPlane{}, &infrav1.WorkspaceTemplateApply{}, &infrav1.WorkspaceTemplateApply{}}[i%5]
			g.Expect(json.Unmarshal(text, obj)).To(Succeed())
			stored := shared(g, p, obj)
			g.Expect(store.Add(stored)).To(Succeed())
			handler.OnAdd(stored, true)
		}
		users = append(users, store, objects)
	}
	heap := func() int {
		runtime.GC()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc)
	}
	before := heap()
	login()
	first := heap() - before
	const more = 4
	for range more {
		login()
	}
	each := (heap() - before - first) / more
	runtime.KeepAlive(content)
	runtime.KeepAlive(users)
	t.Logf("%d objects: %d kB for the first user, %d kB for each further one", len(content), first>>10, each>>10)
	g.Expect(each).To(And(BeNumerically(">", 0), BeNumerically("<", first/3)))
}
