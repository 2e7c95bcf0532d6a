package manager

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform/queue"
)

func TestLimits_leaveSlotsToOtherNamespaces(t *testing.T) {
	g := NewWithT(t)
	for runs, want := range map[int]int{1: 1, 2: 2, 4: 4, 5: 4, 10: 8, 100: 80} {
		g.Expect((&EngineOptions{MaxRuns: runs}).limits()).To(Equal(queue.Limits{Total: runs, PerNamespace: want}))
	}
	g.Expect((&EngineOptions{MaxRuns: 10, MaxRunsPerNamespace: 2}).limits().PerNamespace).To(Equal(2))
}
