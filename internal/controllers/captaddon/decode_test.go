package captaddon

import (
	"context"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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
	s := &scope{addon: inlineAddon(text)}
	_, err = newReconciler(interceptor.Funcs{}).renderData(ctx, s, selected("a"), 0)
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(fault.Is(err)).To(BeFalse())
	_, err = s.parse(ctx, []byte(text))
	g.Expect(err).To(MatchError(context.Canceled))
	_, err = s.parse(ctx, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"))
	g.Expect(err).NotTo(HaveOccurred())
}
