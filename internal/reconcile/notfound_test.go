package reconcile_test

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func TestWaitIfNotFound(t *testing.T) {
	g := NewWithT(t)
	g.Expect(reconcile.WaitIfNotFound(nil, "Reason", "Secret s", "hint")).To(Succeed())

	notFound := apierrors.NewNotFound(corev1.Resource("secrets"), "s")
	for hint, message := range map[string]string{
		"":          "Secret s does not exist",
		"create it": "Secret s does not exist: create it",
	} {
		waiting, ok := fault.AsWaiting(reconcile.WaitIfNotFound(notFound, "Reason", "Secret s", hint))
		g.Expect(ok).To(BeTrue())
		g.Expect(waiting.Reason).To(Equal("Reason"))
		g.Expect(waiting.Message()).To(Equal(message))

		refused := errors.New("connection refused")
		err := reconcile.WaitIfNotFound(refused, "Reason", "Secret s", hint)
		g.Expect(err).To(MatchError("reading Secret s: connection refused"))
		g.Expect(err).To(MatchError(refused))
	}
}
