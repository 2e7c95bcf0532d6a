package captaddon

import (
	"context"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// A text that was not decoded is neither wrong nor empty: the add-on is reconciled again.
func TestDecoding_endsWithItsContext(t *testing.T) {
	g := NewWithT(t)
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n" + strings.Repeat("  # a\n", 5_000)
	end, err := manifest.Turn{Namespace: "other"}.Begin(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	defer end()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, source := range map[string]addonsv1.ManifestSource{"inline": {Name: "m", Inline: text}, "referenced": {Name: "m"}} {
		s := &scope{addon: &addonsv1.CAPTAddon{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}, Spec: addonsv1.CAPTAddonSpec{Manifests: []addonsv1.ManifestSource{source}}}}
		_, err := s.render(ctx, render.Input{Addon: s.addon, Sources: map[string]map[string][]byte{"m": {"a": []byte(text)}}})
		g.Expect(err).To(MatchError(context.Canceled), name)
		g.Expect(fault.Is(err)).To(BeFalse(), name)
		_, err = s.parse(ctx, []byte(text))
		g.Expect(err).To(MatchError(context.Canceled), name)
		_, err = s.parse(ctx, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"))
		g.Expect(err).NotTo(HaveOccurred(), name)
	}
}
