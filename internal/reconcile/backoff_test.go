package reconcile_test

import (
	"math"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/reconcile"
)

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
		t.Run(test.name, func(t *testing.T) {
			NewWithT(t).Expect(reconcile.Backoff(test.minimum, test.maximum, test.retries)).To(Equal(test.want))
		})
	}
}
