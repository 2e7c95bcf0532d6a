package workspacetemplateapply

import (
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// A plan that is refused while resources are observed is made again for the commit, which lets it
// wait for approval.
func TestReconcile_adoptsInStages(t *testing.T) {
	c := newTestController(t, append(values(), newApply(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Adoption = infrav1.AdoptionObserve }))...)
	expectPolicy := func(run, name string) {
		t.Helper()
		request, err := record.Request(c.runSecret(run))
		c.Expect(err).NotTo(HaveOccurred())
		c.Expect(request.Policies.Policies).To(HaveLen(1))
		c.Expect(request.Policies.Policies[0].Name).To(Equal(name))
	}
	c.reconcile()
	expectPolicy("hello-r1", "Observe")
	c.finish("hello-r1", violated(terraform.OutcomeDenied, terraform.PolicyDeny))
	c.reconcile()
	c.expect(infrav1.AppliedCondition, "False "+infrav1.PolicyDeniedReason)
	c.reconcile()
	c.Expect(c.started).To(Equal([]string{"hello-r1"}), "it is not retried")

	c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Adoption = infrav1.AdoptionCommit })
	c.reconcile()
	c.Expect(c.started).To(Equal([]string{"hello-r1", "hello-r2"}))
	expectPolicy("hello-r2", "Commit")
	c.finish("hello-r2", violated(terraform.OutcomePlanned, terraform.PolicyRequireApproval))
	c.reconcile()
	c.expect(infrav1.AppliedCondition, "False "+infrav1.WaitingForApprovalReason)
}
