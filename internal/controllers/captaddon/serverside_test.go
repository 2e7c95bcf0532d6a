package captaddon

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/testenv"
)

// rendered returns a ConfigMap of an add-on.
func rendered(namespace string, data map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": data}}
	obj.SetNamespace(namespace)
	obj.SetName("settings")
	obj.SetLabels(map[string]string{addonsv1.AddonLabel: "flux"})
	return obj
}

func TestApplyObject(t *testing.T) {
	env := testenv.New(t)
	t.Run("keeps what others added", func(t *testing.T) { keepsWhatOthersAdded(t, env) })
	t.Run("keeps the fields of another manager of the same name", func(t *testing.T) { keepsFieldsOfSameName(t, env) })
}

func keepsWhatOthersAdded(t *testing.T, env *testenv.Environment) {
	g := NewWithT(t)
	namespace := env.Namespace(t)

	// Cluster API creates the object as the content has it, with its finalizer.
	created := rendered(namespace, map[string]any{"changed": "one", "dropped": "one"})
	created.SetFinalizers([]string{"example.com/rendered"})
	created.SetAnnotations(map[string]string{"dropped": "one"})
	g.Expect(env.Client.Create(t.Context(), created, client.FieldOwner("cluster-api"))).To(Succeed())
	current := &corev1.ConfigMap{}
	key := client.ObjectKeyFromObject(created)
	g.Expect(env.Client.Get(t.Context(), key, current)).To(Succeed())
	others := current.DeepCopy()
	others.Labels["theirs"], others.Annotations["theirs"], others.Data["theirs"] = "kept", "kept", "kept"
	others.Finalizers = append(others.Finalizers, "example.com/theirs")
	g.Expect(env.Client.Patch(t.Context(), others, client.MergeFrom(current), client.FieldOwner("theirs"))).To(Succeed())

	for range 2 {
		applied := rendered(namespace, map[string]any{"changed": "two", "added": "two"})
		g.Expect(applyObject(t.Context(), env.Client, applied, true)).To(Succeed())
		g.Expect(applied.GetUID()).To(Equal(created.GetUID()), "it becomes the object in the cluster")
		got := &corev1.ConfigMap{}
		g.Expect(env.Client.Get(t.Context(), key, got)).To(Succeed())
		g.Expect(got.Data).To(Equal(map[string]string{"changed": "two", "added": "two", "theirs": "kept"}))
		g.Expect(got.Labels).To(Equal(map[string]string{addonsv1.AddonLabel: "flux", "theirs": "kept"}))
		g.Expect(got.Annotations).To(Equal(map[string]string{"theirs": "kept"}))
		g.Expect(got.Finalizers).To(ConsistOf("example.com/rendered", "example.com/theirs"), "their owners remove them")
		g.Expect(labelManagers(got.ManagedFields)).To(BeEmpty())
	}

	// An object that the add-on did not create is adopted, and keeps its other fields.
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "foreign"}, Data: map[string]string{"changed": "old", "theirs": "kept"}}
	g.Expect(env.Client.Create(t.Context(), foreign)).To(Succeed())
	adopted := rendered(namespace, map[string]any{"changed": "two"})
	adopted.SetName("foreign")
	g.Expect(applyObject(t.Context(), env.Client, adopted, false)).To(Succeed())
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign)).To(Succeed())
	g.Expect(foreign.Data).To(Equal(map[string]string{"changed": "two", "theirs": "kept"}))

	// What the cluster rejects is reported, without the content of Secrets.
	missing := rendered("nowhere", nil)
	g.Expect(applyObject(t.Context(), env.Client, missing, false)).To(MatchError(ContainSubstring(`ConfigMap settings was rejected: namespaces "nowhere" not found`)))
	unknown := rendered(namespace, nil)
	unknown.SetAPIVersion("example.com/v1")
	g.Expect(applyObject(t.Context(), env.Client, unknown, false)).To(MatchError(ContainSubstring("its kind is not installed")))
}

// Cluster API's field manager is called manager, like those of most controllers. The API
// server does not distinguish their fields.
func keepsFieldsOfSameName(t *testing.T, env *testenv.Environment) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	manager := client.FieldOwner("manager")
	created := rendered(namespace, map[string]any{"changed": "one", "dropped": "one"})
	created.SetFinalizers([]string{"example.com/rendered"})
	g.Expect(env.Client.Create(t.Context(), created, manager)).To(Succeed())
	current := &corev1.ConfigMap{}
	key := client.ObjectKeyFromObject(created)
	g.Expect(env.Client.Get(t.Context(), key, current)).To(Succeed())
	others := current.DeepCopy()
	others.Labels["theirs"], others.Annotations, others.Data["theirs"] = "kept", map[string]string{"theirs": "kept"}, "kept"
	others.Finalizers = append(others.Finalizers, "example.com/theirs")
	g.Expect(env.Client.Patch(t.Context(), others, client.MergeFrom(current), manager)).To(Succeed())

	apply := func(data map[string]any, finalizers ...string) *corev1.ConfigMap {
		content := rendered(namespace, data)
		content.SetFinalizers(finalizers)
		g.Expect(applyObject(t.Context(), env.Client, content, false)).To(Succeed())
		got := &corev1.ConfigMap{}
		g.Expect(env.Client.Get(t.Context(), key, got)).To(Succeed())
		g.Expect(got.Labels).To(Equal(map[string]string{addonsv1.AddonLabel: "flux", "theirs": "kept"}))
		g.Expect(got.Annotations).To(Equal(map[string]string{"theirs": "kept"}))
		g.Expect(labelManagers(got.ManagedFields)).To(BeEmpty())
		return got
	}
	first := apply(map[string]any{"changed": "one", "dropped": "one"}, "example.com/rendered")
	g.Expect(first.Data).To(Equal(map[string]string{"changed": "one", "dropped": "one", "theirs": "kept"}))
	g.Expect(first.Finalizers).To(ConsistOf("example.com/rendered", "example.com/theirs"))
	second := apply(map[string]any{"changed": "two"})
	g.Expect(second.Data).To(Equal(map[string]string{"changed": "two", "theirs": "kept"}), "the content owns its fields")
	g.Expect(second.Finalizers).To(ConsistOf("example.com/theirs"))

	// A list item that only the content has is removed with it.
	container := func(name string) map[string]any { return map[string]any{"name": name, "image": "example.com/" + name} }
	pod := func(containers ...any) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "spec": map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"app": "a"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "a"}},
				"spec":     map[string]any{"containers": containers},
			},
		}}}
		obj.SetNamespace(namespace)
		obj.SetName("workload")
		obj.SetLabels(map[string]string{addonsv1.AddonLabel: "flux"})
		return obj
	}
	g.Expect(env.Client.Create(t.Context(), pod(container("a"), container("b")), manager)).To(Succeed())
	g.Expect(applyObject(t.Context(), env.Client, pod(container("a"), container("b")), false)).To(Succeed())
	applied := pod(container("a"))
	g.Expect(applyObject(t.Context(), env.Client, applied, false)).To(Succeed())
	containers, _, err := unstructured.NestedSlice(applied.Object, "spec", "template", "spec", "containers")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(containers).To(HaveExactElements(HaveKeyWithValue("name", "a")))
}

// Otherwise an object that was ready before the change would count as ready, and the
// next cluster would change too.
func TestCheckContent_ignoresAnOutdatedCache(t *testing.T) {
	g := NewWithT(t)
	cached := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing"}}
	cached.SetUID("one")
	cached.SetGeneration(1)
	object := render.IdentityOf(cached)
	r := &rendering{Rendered: &render.Rendered{}}
	g.Expect(checkContent(r, object, cached)).To(Succeed(), "nothing was applied since the start")
	r.applied = map[render.Object]version{object: {uid: "one", generation: 2}}
	g.Expect(checkContent(r, object, cached)).To(MatchError(ContainSubstring("has not been observed yet")))
	cached.SetGeneration(2)
	g.Expect(checkContent(r, object, cached)).To(Succeed())
	cached.SetUID("another")
	cached.SetGeneration(1)
	g.Expect(checkContent(r, object, cached)).To(Succeed(), "it was created again")
}
