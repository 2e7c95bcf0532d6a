package captaddon

import (
	"context"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// liveReader returns the same ConfigMap each time, and a Secret with the same data.
type liveReader struct {
	client.Reader
	data  map[string]string
	reads int
}

func (r *liveReader) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	r.reads++
	data := map[string][]byte{}
	for key, text := range r.data {
		data[key] = []byte(text)
	}
	switch obj := obj.(type) {
	case *corev1.ConfigMap:
		obj.BinaryData = data
	case *corev1.Secret:
		obj.Data = data
	}
	return nil
}

// referring returns an add-on that refers to a ConfigMap, or to a Secret, as often as it may.
func referring(secrets bool) *scope {
	addon := newAddon("mine")
	for i := range 32 {
		source := addonsv1.ManifestSource{Name: fmt.Sprintf("set%d", i)}
		if ref := (&infrav1.LocalReference{Name: "big"}); secrets {
			source.SecretRef = ref
		} else {
			source.ConfigMapRef = ref
		}
		addon.Spec.Manifests = append(addon.Spec.Manifests, source)
	}
	return &scope{addon: addon}
}

// A ConfigMap of 1 MiB to which an add-on refers 32 times is not read 32 times.
func TestRenderData_stopsReadingAtTheLimit(t *testing.T) {
	for name, secrets := range map[string]bool{"ConfigMap": false, "Secret": true} {
		g := NewWithT(t)
		live := &liveReader{data: map[string]string{"a": strings.Repeat("# a\n", 1<<18)}}
		_, err := (&Reconciler{Live: live}).renderData(t.Context(), referring(secrets), selected("a"), 0)
		g.Expect(err).To(MatchError("TooLarge: Add-on mine: with " + name + " big, it is made of more than 2048 KiB, the limit: split it into two add-ons with dependsOn, or remove keys that it does not need"))
		g.Expect(live.reads).To(Equal(2))
	}
}

func TestRenderData_countsTheKeys(t *testing.T) {
	g := NewWithT(t)
	live := &liveReader{data: map[string]string{}}
	for i := range 40_000 {
		live.data[fmt.Sprintf("k%d", i)] = "#"
	}
	_, err := (&Reconciler{Live: live}).renderData(t.Context(), referring(false), selected("a"), 0)
	g.Expect(err).To(MatchError(HavePrefix("TooLarge: Add-on mine: with ConfigMap big, it is made of more than 2048 KiB")))
}

func TestSources_haveTextAndBinaryData(t *testing.T) {
	g := NewWithT(t)
	s := referring(false)
	s.addon.Spec.Manifests = s.addon.Spec.Manifests[:1]
	r := newReconciler(interceptor.Funcs{}, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "big"},
		Data:       map[string]string{"a": configMapManifest("text", "x")}, BinaryData: map[string][]byte{"b": []byte(configMapManifest("binary", "x"))},
	})
	rendered, err := r.renderData(t.Context(), s, selected("a"), 0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(rendered.Objects).To(HaveLen(2))
}
