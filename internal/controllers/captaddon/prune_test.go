package captaddon

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
)

func configMap(name string) render.Object {
	return render.Object{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "ns", Name: name}
}

// renderedSecret returns a Secret with a ConfigMap and an annotation to prune.
func renderedSecret(prune string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "flux-a", Annotations: map[string]string{addonsv1.PruneAnnotation: prune}},
		Data:       map[string][]byte{"m": []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: old, namespace: ns}\n")},
	}
}

func TestDroppedObjects(t *testing.T) {
	pending, err := render.EncodeObjects([]render.Object{configMap("pending"), configMap("back")})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, test := range map[string]struct {
		prune   string
		current []render.Object
		want    []render.Object
	}{
		"nothing":           {"", []render.Object{configMap("old")}, nil},
		"dropped":           {"", []render.Object{configMap("new")}, []render.Object{configMap("old")}},
		"pending":           {pending, []render.Object{configMap("old"), configMap("back")}, []render.Object{configMap("pending")}},
		"both":              {pending, []render.Object{configMap("back")}, []render.Object{configMap("old"), configMap("pending")}},
		"edited annotation": {"[{", nil, []render.Object{configMap("old")}},
	} {
		NewWithT(t).Expect(droppedObjects(renderedSecret(test.prune), test.current)).To(Equal(test.want), name)
	}
}

func TestObjectsToPrune(t *testing.T) {
	g := NewWithT(t)
	text, err := render.EncodeObjects([]render.Object{configMap("a"), configMap("b")})
	g.Expect(err).NotTo(HaveOccurred())
	objects, err := objectsToPrune(renderedSecret(text))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(objects).To(HaveLen(2))
	g.Expect(render.IdentityOf(objects[1])).To(Equal(configMap("b")))

	g.Expect(objectsToPrune(renderedSecret(""))).To(BeEmpty())
	_, err = objectsToPrune(renderedSecret("[{"))
	g.Expect(err).To(MatchError(HavePrefix("reading the annotation capt.appthrust.io/prune of Secret flux-a: remove it: ")))
}

func TestPrune_needsNoClientWithoutDroppedObjects(t *testing.T) {
	g := NewWithT(t)
	in := selected("a")
	g.Expect((&Reconciler{}).prune(t.Context(), &scope{}, in)).To(Succeed())
	in.secret = renderedSecret("")
	g.Expect((&Reconciler{}).prune(t.Context(), &scope{}, in)).To(Succeed())
}
