package workspacetemplateapply

import (
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/record"
)

// A state that runs cannot save is reported until a user has decided about it, whatever the
// runs do meanwhile.
func TestReconcile_reportsAStateThatCannotBeMerged(t *testing.T) {
	for name, resolve := range map[string]func(*testController){
		"restored": func(c *testController) {
			secret := rescuedSecret("kept")
			c.Expect(c.server.Get(t.Context(), key(secret.Name), secret)).To(Succeed())
			run := "hello-r2"
			c.Expect(c.reconciler.store.Annotate(t.Context(), secret, record.SupersededAnnotation, &run)).To(Succeed())
		},
		"deleted": func(c *testController) { c.Expect(c.server.Delete(t.Context(), rescuedSecret("kept"))).To(Succeed()) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestController(t, append(values(), newApply())...)
			c.reconcile()
			c.Expect(c.get().Status.Conditions).NotTo(ContainElement(HaveField("Type", infrav1.StateSavedCondition)), "there is nothing to report")
			c.Expect(c.server.Create(t.Context(), rescuedSecret("kept"))).To(Succeed())
			c.reconcile()
			c.Expect(c.expect(infrav1.StateSavedCondition, "False StateRescued")).To(ContainSubstring("captctl reconcile hello -n n"))

			result := outputsResult
			result.NotMerged = map[string]int{"kept": 3, "gone": 1}
			c.finish("hello-r1", result)
			c.reconcile()
			c.reconcile()
			message := c.expect(infrav1.StateSavedCondition, "False StateNotMerged")
			c.Expect(message).To(And(ContainSubstring("has 3 resources that the saved state does not have"), ContainSubstring("captctl state restore hello capt-kept-0 -n n --hold")))
			c.expect(infrav1.ReadyCondition, "True Ready")

			resolve(c)
			c.reconcile()
			c.reconcile()
			c.expect(infrav1.StateSavedCondition, "True StateSaved")
		})
	}
}

func TestStateSaved_reportsWhatNeedsAUserFirst(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	waits, unknown := rescuedSecret("waits"), rescuedSecret("unknown")
	unknown.Annotations = map[string]string{record.NotMergedAnnotation: ""}
	s.Left = append(s.Left, *waits, *unknown)
	err := stateSaved(t.Context(), s)
	g.Expect(err).To(MatchError(And(HavePrefix("StateNotMerged: "), ContainSubstring("Secret capt-unknown-0"), ContainSubstring("an unknown number of resources"), HaveSuffix(". Other such states: 1"))))
	g.Expect(stateSaved(t.Context(), newScope("hello"))).To(Succeed())
}
