package captaddon

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

var (
	nodePool   = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}
	release    = schema.GroupVersionKind{Group: "helm.toolkit.fluxcd.io", Version: "v2", Kind: "HelmRelease"}
	definition = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	namespace  = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	role       = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}
)

// ours returns an object with the label of the add-on flux.
func ours(gvk schema.GroupVersionKind, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetGroupVersionKind(gvk)
	obj.SetName(name)
	obj.SetLabels(map[string]string{addonsv1.AddonLabel: "flux"})
	return obj
}

// workloadCluster returns the client of a workload cluster with custom kinds.
func workloadCluster(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	NewWithT(t).Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	mapper := apimeta.NewDefaultRESTMapper([]schema.GroupVersion{nodePool.GroupVersion()})
	for _, gvk := range []schema.GroupVersionKind{nodePool, definition, namespace, role} {
		mapper.Add(gvk, apimeta.RESTScopeRoot)
	}
	for _, kind := range []string{"Pod", "PersistentVolumeClaim", "Secret", "Service", "ConfigMap"} {
		mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: kind}, apimeta.RESTScopeNamespace)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(objects...).Build()
}

func exists(t *testing.T, c client.Client, obj *unstructured.Unstructured) bool {
	t.Helper()
	err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj.DeepCopy())
	NewWithT(t).Expect(client.IgnoreNotFound(err)).To(Succeed())
	return !apierrors.IsNotFound(err)
}

func TestRemovalStages_deletesInReverse(t *testing.T) {
	objects := []*unstructured.Unstructured{
		ours(namespace, "ns"), ours(definition, "crd"), ours(role, "r1"), ours(role, "r2"), ours(nodePool, "pool"), ours(release, "hr"),
	}
	stages := func(clusterDeleting bool) [][]string {
		var names [][]string
		for _, stage := range removalStages(objects, clusterDeleting) {
			var inStage []string
			for _, obj := range stage {
				inStage = append(inStage, obj.GetName())
			}
			names = append(names, inStage)
		}
		return names
	}
	g := NewWithT(t)
	g.Expect(stages(false)).To(Equal([][]string{{"hr"}, {"pool"}, {"r2", "r1"}, {"crd"}, {"ns"}}))
	g.Expect(stages(true)).To(Equal([][]string{{"hr"}, {"pool"}}), "the rest is deleted with the cluster")
	g.Expect(objects[0].GetName()).To(Equal("ns"), "the argument is unchanged")
}

func TestRemoveAll_deletesObjectsOfTheAddon(t *testing.T) {
	g := NewWithT(t)
	plain, adopted, missing := ours(role, "plain"), ours(role, "adopted"), ours(role, "missing")
	adopted.SetLabels(nil)
	space := ours(namespace, "ns")
	c := workloadCluster(t, plain.DeepCopy(), adopted.DeepCopy(), space.DeepCopy())
	r := &remover{c: c, addon: "flux"}
	g.Expect(r.removeAll(t.Context(), []*unstructured.Unstructured{space, plain, adopted, missing})).To(Succeed())
	g.Expect(exists(t, c, plain)).To(BeFalse())
	g.Expect(exists(t, c, space)).To(BeFalse())
	g.Expect(exists(t, c, adopted)).To(BeTrue(), "another owner has it")
}

func TestRemoveAll_waitsForFinalizersStageByStage(t *testing.T) {
	g := NewWithT(t)
	pool, plain := ours(nodePool, "pool"), ours(role, "plain")
	pool.SetFinalizers([]string{"karpenter.sh/termination"})
	c := workloadCluster(t, pool.DeepCopy(), plain.DeepCopy())
	r := &remover{c: c, addon: "flux"}
	objects := []*unstructured.Unstructured{plain, pool}

	waiting, found := fault.AsWaiting(r.removeAll(t.Context(), objects))
	g.Expect(found).To(BeTrue())
	g.Expect(waiting.Message()).To(Equal("Waiting for NodePool pool to be deleted"))
	g.Expect(waiting.RetryAfter).To(Equal(removalInterval))
	g.Expect(exists(t, c, plain)).To(BeTrue(), "its stage comes later")

	waiting, found = fault.AsWaiting(r.removeAll(t.Context(), objects))
	g.Expect(found).To(BeTrue())
	g.Expect(waiting.Message()).To(Equal("Waiting for NodePool pool (finalizers: karpenter.sh/termination) to be deleted"))
}

func TestRemoveAll_keepsNamespacesInUse(t *testing.T) {
	g := NewWithT(t)
	space := ours(namespace, "ns")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	c := workloadCluster(t, space.DeepCopy(), pod)

	err := (&remover{c: c, addon: "flux", waitsForNamespaces: true}).removeAll(t.Context(), []*unstructured.Unstructured{space})
	waiting, found := fault.AsWaiting(err)
	g.Expect(found).To(BeTrue())
	g.Expect(waiting.Message()).To(Equal("Waiting for the content of Namespace ns to be deleted"))

	g.Expect((&remover{c: c, addon: "flux"}).removeAll(t.Context(), []*unstructured.Unstructured{space})).To(Succeed())
	g.Expect(exists(t, c, space)).To(BeTrue())
}

func TestRemoveAll_keepsDefinitionsInUse(t *testing.T) {
	crd := ours(definition, "nodepools.karpenter.sh")
	crd.Object["spec"] = map[string]any{"group": "karpenter.sh", "names": map[string]any{"kind": "NodePool"}}
	adopted := crd.DeepCopy()
	adopted.SetLabels(nil)
	mine, users := ours(nodePool, "mine"), ours(nodePool, "users")
	for name, test := range map[string]struct {
		definition      *unstructured.Unstructured
		live            []client.Object
		clusterDeleting bool
		blocked         bool
	}{
		"only objects of the add-on": {crd, []client.Object{mine}, false, false},
		"object of a user":           {crd, []client.Object{mine, users}, false, true},
		"definition was adopted":     {adopted, []client.Object{users}, false, false},
		"definition is gone":         {nil, []client.Object{users}, false, false},
		"cluster is being deleted":   {crd, []client.Object{users}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var live []client.Object
			for _, obj := range test.live {
				live = append(live, obj.DeepCopyObject().(client.Object))
			}
			if test.definition != nil {
				live = append(live, test.definition.DeepCopy())
			}
			r := &remover{c: workloadCluster(t, live...), addon: "flux", clusterDeleting: test.clusterDeleting}
			err := r.removeAll(t.Context(), []*unstructured.Unstructured{crd, mine})
			if !test.blocked {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			waiting, found := fault.AsWaiting(err)
			g.Expect(found).To(BeTrue(), "%v", err)
			g.Expect(waiting.Message()).To(Equal("NodePool users is of a kind that this add-on installed and would be deleted with it: delete it, " +
				"or keep the kind by removing the label capt.appthrust.io/addon from CustomResourceDefinition nodepools.karpenter.sh"))
			g.Expect(exists(t, r.c, mine)).To(BeTrue(), "nothing is deleted before")
		})
	}
}

func TestIsInUse(t *testing.T) {
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: name, Name: "x"} }
	terminating := &corev1.Pod{ObjectMeta: in("ns")}
	terminating.DeletionTimestamp, terminating.Finalizers = deletion, []string{"f"}
	for name, test := range map[string]struct {
		obj  client.Object
		want bool
	}{
		"pod":             {&corev1.Pod{ObjectMeta: in("ns")}, true},
		"terminating pod": {terminating, false},
		"volume":          {&corev1.PersistentVolumeClaim{ObjectMeta: in("ns")}, true},
		"Secret":          {&corev1.Secret{ObjectMeta: in("ns")}, true},
		"Service":         {&corev1.Service{ObjectMeta: in("ns")}, true},
		"ConfigMap":       {&corev1.ConfigMap{ObjectMeta: in("ns")}, false},
		"elsewhere":       {&corev1.Secret{ObjectMeta: in("other")}, false},
	} {
		NewWithT(t).Expect(isInUse(t.Context(), workloadCluster(t, test.obj), "ns")).To(Equal(test.want), name)
	}
}

func TestFirstForeign(t *testing.T) {
	g := NewWithT(t)
	objects := []*unstructured.Unstructured{ours(nodePool, "a")}
	older := ours(nodePool, "a")
	older.SetAPIVersion("karpenter.sh/v1beta1")
	g.Expect(firstForeign(nil, objects)).To(BeNil())
	g.Expect(firstForeign([]unstructured.Unstructured{*ours(nodePool, "a"), *older}, objects)).To(BeNil())
	g.Expect(firstForeign([]unstructured.Unstructured{*ours(nodePool, "a"), *ours(nodePool, "b")}, objects).GetName()).To(Equal("b"))
	g.Expect(firstForeign([]unstructured.Unstructured{*ours(role, "a")}, objects)).NotTo(BeNil(), "another kind")
}

func TestDescribe_namesFinalizersOfADeletion(t *testing.T) {
	g := NewWithT(t)
	obj := ours(nodePool, "pool")
	g.Expect(describe(obj)).To(Equal("NodePool pool"))
	obj.SetFinalizers([]string{"a", "b"})
	g.Expect(describe(obj)).To(Equal("NodePool pool"), "it is not being deleted")
	obj.SetDeletionTimestamp(deletion)
	g.Expect(describe(obj)).To(Equal("NodePool pool (finalizers: a, b)"))
	obj.SetFinalizers(nil)
	g.Expect(describe(obj)).To(Equal("NodePool pool"))
}

func TestIsCustom(t *testing.T) {
	for gvk, custom := range map[schema.GroupVersionKind]bool{
		nodePool: true, release: true, definition: false, role: false, namespace: false,
		{Group: "apps", Version: "v1", Kind: "Deployment"}: false,
	} {
		NewWithT(t).Expect(isCustom(gvk)).To(Equal(custom), gvk.Kind)
	}
}
