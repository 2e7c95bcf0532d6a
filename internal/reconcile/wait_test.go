package reconcile

import (
	"errors"
	"math"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/reconcile/fault"
)

func TestWaitIfNotFound(t *testing.T) {
	g := NewWithT(t)
	g.Expect(WaitIfNotFound(nil, "Reason", "Secret s", "hint")).To(Succeed())

	notFound := apierrors.NewNotFound(corev1.Resource("secrets"), "s")
	for hint, message := range map[string]string{
		"":          "Secret s does not exist",
		"create it": "Secret s does not exist: create it",
	} {
		waiting, ok := fault.AsWaiting(WaitIfNotFound(notFound, "Reason", "Secret s", hint))
		g.Expect(ok).To(BeTrue())
		g.Expect(waiting.Reason).To(Equal("Reason"))
		g.Expect(waiting.Message()).To(Equal(message))

		refused := errors.New("connection refused")
		err := WaitIfNotFound(refused, "Reason", "Secret s", hint)
		g.Expect(err).To(MatchError("reading Secret s: connection refused"))
		g.Expect(err).To(MatchError(refused))
	}
}

func TestBackoff(t *testing.T) {
	for _, test := range []struct {
		name             string
		minimum, maximum time.Duration
		retries          int32
		want             time.Duration
	}{
		{"before the first retry", time.Second, time.Minute, 0, time.Second},
		{"fewer than none", time.Second, time.Minute, -1, time.Second},
		{"doubled", time.Second, time.Minute, 1, 2 * time.Second},
		{"doubled often", time.Second, time.Minute, 5, 32 * time.Second},
		{"the maximum", time.Second, time.Minute, 6, time.Minute},
		{"exactly the maximum", time.Second, 4 * time.Second, 2, 4 * time.Second},
		{"does not overflow", time.Second, 24 * time.Hour, math.MaxInt32, 24 * time.Hour},
		{"minimum above the maximum", time.Hour, time.Minute, 0, time.Minute},
		{"minimum equal to the maximum", time.Minute, time.Minute, 3, time.Minute},
	} {
		NewWithT(t).Expect(Backoff(test.minimum, test.maximum, test.retries)).To(Equal(test.want), test.name)
	}
}
