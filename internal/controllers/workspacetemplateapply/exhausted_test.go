package workspacetemplateapply

import (
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// The metrics report what attempt decides.
func TestGaveUp_agreesWithTheDecision(t *testing.T) {
	for _, reason := range []string{infrav1.RetryingReason, infrav1.LockHeldReason, infrav1.RunTimedOutReason, infrav1.RunInterruptedReason, infrav1.PlanStaleReason, infrav1.ProtectedResourceReason} {
		for attempts := int32(1); attempts < 5; attempts++ {
			for _, limit := range []*int32{nil, new(int32(0)), new(int32(2)), new(int32(3))} {
				s := decision.Situation{Now: noon}
				failed(reason, attempts, 1)(&s)
				s.Policy.RetryLimit = limit
				_, err := s.Attempt(decision.Decision{}, inputs)
				_, stalled := fault.AsStalled(err)
				NewWithT(t).Expect(decision.GaveUp(s.Policy, s.Failure)).To(Equal(stalled), "%s after %d attempts: %v", reason, attempts, err)
			}
		}
	}
}
