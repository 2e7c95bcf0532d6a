package workspace

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func TestReleased_decidesAboutResourcesInTheSameWrite(t *testing.T) {
	held := []string{"other", infrav1.WorkspaceHeldFinalizer}
	for name, c := range map[string]struct {
		finalizers      []string
		retained, given bool
		differs         bool
	}{
		"held":                   {held, false, false, true},
		"held, to be retained":   {held, false, true, true},
		"released":               {[]string{"other"}, false, false, false},
		"released, now retained": {[]string{"other"}, false, true, true},
		"released, not retained": {[]string{"other"}, true, false, true},
		"released and retained":  {[]string{"other"}, true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Finalizers: c.finalizers}}
			apply.Spec.RetainWorkspaceOnDelete = c.retained
			changed, differs := released(apply, c.given, nil)
			g.Expect(differs).To(Equal(c.differs))
			g.Expect(changed.Spec.RetainWorkspaceOnDelete).To(Equal(c.given))
			g.Expect(changed.Finalizers).To(ConsistOf("other"))
			g.Expect(apply.Finalizers).To(Equal(c.finalizers), "the original is the base of the patch")
		})
	}
}

// A user can require the approval of the destruction, and then delete the object at once.
func TestReleased_requiresWhatTheOwnerRequires(t *testing.T) {
	g := NewWithT(t)
	apply := &infrav1.WorkspaceTemplateApply{}
	apply.Spec.Protect = []infrav1.ProtectPattern{"a"}
	settings := &infrav1.WorkspaceSettings{DestroyApproval: infrav1.ApprovalManual, Protect: []infrav1.ProtectPattern{"a", "b"}}
	changed, differs := released(apply, false, settings)
	g.Expect(differs).To(BeTrue())
	g.Expect(changed.Spec.DestroyApproval).To(Equal(infrav1.ApprovalManual))
	g.Expect(changed.Spec.Protect).To(HaveExactElements(infrav1.ProtectPattern("a"), infrav1.ProtectPattern("b")))
	g.Expect(apply.Spec.Protect).To(HaveLen(1), "the original is the base of the patch")

	_, differs = released(changed, false, settings)
	g.Expect(differs).To(BeFalse())
	_, differs = released(changed, false, nil)
	g.Expect(differs).To(BeFalse(), "what a user requires stays")
}

func TestDestruction(t *testing.T) {
	deleting := func(reason string) *infrav1.WorkspaceTemplateApply {
		a := applied(func(a *infrav1.WorkspaceTemplateApply) { a.DeletionTimestamp = new(metav1.NewTime(time.Unix(1, 0))) })
		if reason != "" {
			conditions.Set(a, metav1.Condition{Type: infrav1.DestroyedCondition, Status: metav1.ConditionFalse, Reason: reason, Message: "2 of 3"})
		}
		return a
	}
	earlier := deleting(infrav1.RunFailedReason)
	earlier.DeletionTimestamp = nil
	for name, c := range map[string]struct {
		apply   *infrav1.WorkspaceTemplateApply
		stalled bool
		want    string
	}{
		"not reconciled":               {deleting(""), false, "is being destroyed"},
		"a condition from before":      {earlier, false, "is being destroyed"},
		"running":                      {deleting(infrav1.RunInProgressReason), false, "demo: 2 of 3"},
		"failed":                       {deleting(infrav1.RunFailedReason), true, "demo: 2 of 3"},
		"a resource that is protected": {deleting(infrav1.ProtectedResourceReason), true, "demo: 2 of 3"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := destruction(c.apply)
			g.Expect(err).To(MatchError(ContainSubstring(c.want)))
			_, stalled := fault.AsStalled(err)
			_, waiting := fault.AsWaiting(err)
			g.Expect(stalled).To(Equal(c.stalled))
			g.Expect(waiting).To(Equal(!c.stalled))
		})
	}
}
