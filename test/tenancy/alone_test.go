package tenancy

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// CAPT writes the spec of a workspace as its controlling owner says, with the rights of the manager.
func TestEditor_cannotTakeAWorkspaceWithAnOwner(t *testing.T) {
	ns := env.Namespace(t)
	editor, approver := editor(t, ns), approver(t, ns)
	apply := workspace(t, editor, ns, "a", func(a *infrav1.WorkspaceTemplateApply) {
		a.OwnerReferences = []metav1.OwnerReference{owner(false)}
	})
	control := func(a *infrav1.WorkspaceTemplateApply) { a.OwnerReferences = []metav1.OwnerReference{owner(true)} }
	refused(t, "an owner that gets control", patched(editor, apply, control))
	refused(t, "a new owner", patched(editor, apply, func(a *infrav1.WorkspaceTemplateApply) {
		another := owner(true)
		another.UID = "1"
		a.OwnerReferences = append(a.OwnerReferences, another)
	}))
	allowed(t, "an approver", func() error { return patched(approver, apply, control) })
}

// A user who changes and a user who allows the destruction are two.
func TestApprover_cannotAllowTheDestructionOfHisOwnChange(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	editor, approver := editor(t, ns), approver(t, ns)
	apply := workspace(t, editor, ns, "a", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Approval = "" })
	allow := func() error {
		_, err := approve(t, approver, ns, func(a *infrav1.WorkspaceApproval) { a.Spec.AllowDestroy = []string{"aws_vpc.this"} })
		return err
	}
	allowed(t, "the change of another user", allow)
	g.Expect(patched(approver, apply, func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.Variables = map[string]infrav1.Value{"x": infrav1.StringValue("y")}
	})).To(Succeed())
	refused(t, "his own change", allow())
	withRoles(t, ns, "approver", "capt-self-approver")
	allowed(t, "with permission", allow)
}

func TestApprover_cannotDestroyAlone(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	editor, approver := editor(t, ns), approver(t, ns)
	second := withRoles(t, ns, "second", "capt-viewer", "capt-editor", "capt-approver")
	apply := workspace(t, editor, ns, "a", func(a *infrav1.WorkspaceTemplateApply) {
		a.Finalizers, a.Spec.DestroyApproval = []string{"capt.appthrust.io/test"}, infrav1.ApprovalManual
	})
	t.Cleanup(func() {
		_ = patched(env.Client, apply, func(a *infrav1.WorkspaceTemplateApply) { a.Finalizers = nil })
	})
	current := func() *infrav1.WorkspaceTemplateApply {
		g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(apply), apply)).To(Succeed())
		return apply
	}
	approveInSpec := func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = plan }
	allowed(t, "a dry run", func() error { return second.Delete(t.Context(), apply, client.DryRunAll) })
	g.Expect(current().Status.DeletedBy).To(BeEmpty())
	allowed(t, "deleting", func() error { return approver.DeleteAllOf(t.Context(), apply, client.InNamespace(ns)) })
	g.Expect(current().Status.DeletedBy).To(Equal("approver"))
	g.Expect(apply.DeletionTimestamp.IsZero()).To(BeFalse())
	g.Expect(editor.Delete(t.Context(), apply)).To(Succeed(), "again")
	g.Expect(current().Status.DeletedBy).To(Equal("approver"), "the first deletion is the one that takes place")

	refused(t, "his own deletion", patched(approver, current(), approveInSpec))
	_, err := approve(t, approver, ns, func(a *infrav1.WorkspaceApproval) { a.Spec.AllowDestroy = []string{"aws_vpc.this"} })
	refused(t, "a protected resource of his own deletion", err)
	refused(t, "a destruction without approval", patched(approver, current(), func(a *infrav1.WorkspaceTemplateApply) { a.Spec.DestroyApproval = "" }))
	allowed(t, "another approver", func() error { return patched(second, current(), approveInSpec) })
	g.Expect(patched(second, current(), func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = "" })).To(Succeed())
	withRoles(t, ns, "approver", "capt-self-approver")
	allowed(t, "with permission", func() error { return patched(approver, current(), approveInSpec) })
}

// The requirements of the templates differ, and an owner changes the template as the manager.
func TestApproval_endsWithTheTemplate(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	editor, approver := editor(t, ns), approver(t, ns)
	apply := workspace(t, editor, ns, "a", nil)
	allowed(t, "approving", func() error {
		return patched(approver, apply, func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = plan })
	})
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(apply), apply)).To(Succeed())
	g.Expect(patched(as(t, managerUser), apply, func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRef.Name = "other" })).To(Succeed())
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(apply), apply)).To(Succeed())
	g.Expect(apply.Spec.ApprovedPlan).To(BeEmpty())
	g.Expect(infrav1.ApprovalOf(apply)).To(BeNil())
}
