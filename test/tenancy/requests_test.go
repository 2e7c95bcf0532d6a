package tenancy

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// approve creates a WorkspaceApproval.
func approve(t *testing.T, c client.Client, namespace string, change func(*infrav1.WorkspaceApproval)) (*infrav1.WorkspaceApproval, error) {
	t.Helper()
	a := &infrav1.WorkspaceApproval{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "a-"},
		Spec:       infrav1.WorkspaceApprovalSpec{Workspace: "a", Plan: plan, Decision: infrav1.DecisionApprove},
	}
	if change != nil {
		change(a)
	}
	return a, c.Create(t.Context(), a)
}

// request creates a WorkspaceOperation.
func request(t *testing.T, c client.Client, namespace string, spec infrav1.WorkspaceOperationSpec) (*infrav1.WorkspaceOperation, error) {
	t.Helper()
	spec.Workspace = "a"
	o := &infrav1.WorkspaceOperation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "a-"}, Spec: spec}
	return o, c.Create(t.Context(), o)
}

// forbidden expects that RBAC refuses a request.
func forbidden(t *testing.T, what string, err error) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", what, err)
	g.Expect(err).NotTo(MatchError(ContainSubstring("ValidatingAdmissionPolicy")), what)
}

func TestRequests_areCreatedByTheirRoles(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	viewer, editor, approver := viewer(t, ns), editor(t, ns), approver(t, ns)
	workspace(t, editor, ns, "a", nil)
	run := infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRun}

	var operation *infrav1.WorkspaceOperation
	allowed(t, "an operation of an editor", func() (err error) {
		operation, err = request(t, editor, ns, run)
		return err
	})
	var approval *infrav1.WorkspaceApproval
	allowed(t, "an approval of an approver", func() (err error) {
		approval, err = approve(t, approver, ns, nil)
		return err
	})
	allowed(t, "an operation of an approver", func() error {
		_, err := request(t, approver, ns, run)
		return err
	})
	for _, obj := range []client.Object{approval, operation} {
		allowed(t, "reading", func() error { return viewer.Get(t.Context(), client.ObjectKeyFromObject(obj), obj) })
		forbidden(t, "deleting by a viewer", viewer.Delete(t.Context(), obj))
		forbidden(t, "changing", patched(approver, obj, func(o client.Object) { o.SetLabels(map[string]string{"x": "y"}) }))
	}
	for _, list := range []client.ObjectList{&infrav1.WorkspacePlanList{}, &infrav1.WorkspaceRunList{}} {
		allowed(t, "listing", func() error { return viewer.List(t.Context(), list, client.InNamespace(ns)) })
	}
	_, err := approve(t, editor, ns, nil)
	forbidden(t, "an approval of an editor", err)
	_, err = request(t, viewer, ns, run)
	forbidden(t, "an operation of a viewer", err)
	forbidden(t, "deleting an approval by an editor", editor.Delete(t.Context(), approval))
	forbidden(t, "a plan of a user", approver.Create(t.Context(), &infrav1.WorkspacePlan{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}, Spec: infrav1.WorkspacePlanSpec{Workspace: "a", Plan: plan},
	}))
	forbidden(t, "deleting a decision by an approver, which may be the rejection of his own change", approver.Delete(t.Context(), approval))
	g.Expect(editor.Delete(t.Context(), operation)).To(Succeed())
}

func TestRequests_recordUserAndWorkspace(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	editor, approver := editor(t, ns), approver(t, ns)
	apply := workspace(t, editor, ns, "a", nil)

	var approval *infrav1.WorkspaceApproval
	allowed(t, "approving", func() (err error) {
		approval, err = approve(t, approver, ns, func(a *infrav1.WorkspaceApproval) {
			a.Spec.OwnChange = infrav1.OwnChangeYes
		})
		return err
	})
	g.Expect(approval.Spec).To(And(HaveField("DecidedBy", "approver"), HaveField("OwnChange", infrav1.OwnChangeNo), HaveField("WorkspaceUID", apply.UID)))
	operation, err := request(t, editor, ns, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRun})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(operation.Spec).To(And(HaveField("RequestedBy", "editor"), HaveField("WorkspaceUID", apply.UID)))

	// A restore creates what was executed and deleted since.
	_, err = request(t, editor, ns, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRun, WorkspaceUID: apply.UID, RequestedBy: "ada"})
	g.Expect(err).To(MatchError(ContainSubstring("this is a copy of a request of ada, which counts once")))
	_, err = approve(t, approver, ns, func(a *infrav1.WorkspaceApproval) { a.Spec.DecidedBy = "ada" })
	g.Expect(err).To(MatchError(ContainSubstring("this is a copy of a request of ada, which counts once")))

	for _, obj := range []client.Object{
		&infrav1.WorkspaceApproval{Spec: infrav1.WorkspaceApprovalSpec{Workspace: "missing", Plan: plan, Decision: infrav1.DecisionReject}},
		&infrav1.WorkspaceOperation{Spec: infrav1.WorkspaceOperationSpec{Workspace: "missing", Type: infrav1.OperationRun}},
	} {
		obj.SetNamespace(ns)
		obj.SetGenerateName("a-")
		err := approver.Create(t.Context(), obj)
		g.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		g.Expect(err).To(MatchError(ContainSubstring(`workspace "missing" does not exist in namespace "` + ns + `": write the name of a WorkspaceTemplateApply`)))
	}
}

// withoutWebhooks labels a namespace for which CAPT's webhooks of users are not called.
const withoutWebhooks = "without-webhooks"

// Where CAPT's webhooks are missing, a user can at most tell the truth.
func TestRequests_cannotBeForgedWithoutWebhooks(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	editor, approver := editor(t, ns), approver(t, ns)
	workspace(t, editor, ns, "a", nil)
	exempt(t, ns)
	forged := func(by string, own infrav1.OwnChange) func(*infrav1.WorkspaceApproval) {
		return func(a *infrav1.WorkspaceApproval) {
			a.Spec.DecidedBy, a.Spec.OwnChange, a.Spec.Decision = by, own, infrav1.DecisionReject
		}
	}
	requested := func(by string) error {
		_, err := request(t, editor, ns, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRun, RequestedBy: by})
		return err
	}
	g.Eventually(func() bool { return apierrors.IsForbidden(requested("mallory")) }, testTimeout, 100*time.Millisecond).Should(BeTrue(), "the webhooks are not called")
	refused(t, "another user", requested("mallory"))
	refused(t, "no user", requested(""))
	allowed(t, "the user", func() error { return requested("editor") })

	allowed(t, "the user", func() error {
		_, err := approve(t, approver, ns, forged("approver", infrav1.OwnChangeYes))
		return err
	})
	for what, change := range map[string]func(*infrav1.WorkspaceApproval){
		"another user": forged("mallory", infrav1.OwnChangeYes), "no user": forged("", infrav1.OwnChangeYes), "no own change": forged("approver", ""),
	} {
		_, err := approve(t, approver, ns, change)
		refused(t, what, err)
	}
}

// exempt exempts a namespace from CAPT's webhooks that record users.
func exempt(t *testing.T, ns string) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(patched(env.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, func(n *corev1.Namespace) {
		n.Labels = map[string]string{withoutWebhooks: ""}
	})).To(Succeed())
	var all admissionv1.MutatingWebhookConfigurationList
	g.Expect(env.Client.List(t.Context(), &all)).To(Succeed())
	exempted := 0
	for i := range all.Items {
		config := &all.Items[i]
		before := config.DeepCopy()
		for j := range config.Webhooks {
			hook := &config.Webhooks[j]
			if kind := strings.Split(hook.Name, ".")[1]; kind == "workspaceapproval" || kind == "workspaceoperation" || kind == "workspacetemplateapply" {
				exempted++
				hook.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: withoutWebhooks, Operator: metav1.LabelSelectorOpDoesNotExist}}}
			}
		}
		g.Expect(env.Client.Patch(t.Context(), config, client.MergeFrom(before))).To(Succeed())
	}
	g.Expect(exempted).To(Equal(3))
}

func TestApprover_cannotDecideAboutHisOwnChange(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	editor, approver := editor(t, ns), approver(t, ns)
	apply := workspace(t, editor, ns, "a", nil)
	decide := func(change func(*infrav1.WorkspaceApproval)) error {
		_, err := approve(t, approver, ns, change)
		return err
	}
	current := func() *infrav1.WorkspaceTemplateApply {
		g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(apply), apply)).To(Succeed())
		return apply
	}
	allowDestroy := func(a *infrav1.WorkspaceApproval) { a.Spec.AllowDestroy = []string{"aws_vpc.this"} }
	allowed(t, "the change of another user", func() error { return decide(nil) })
	allowed(t, "a destruction by the change of another user", func() error { return decide(allowDestroy) })
	refused(t, "a plan that the workspace does not show", decide(func(a *infrav1.WorkspaceApproval) { a.Spec.Plan = anotherPlan }))
	refused(t, "a plan of another workspace", decide(func(a *infrav1.WorkspaceApproval) { a.Spec.WorkspaceUID = "before" }))

	showPlan(t, apply, &infrav1.RunRequest{ID: "1", Arguments: "--plan-only", RequestedBy: "approver"})
	refused(t, "his own operation", decide(nil))
	showPlan(t, apply, &infrav1.RunRequest{ID: "1", Arguments: "--plan-only", RequestedBy: "editor"})
	allowed(t, "the operation of another user", func() error { return decide(nil) })
	showPlan(t, apply, nil)

	stateChangedBy := func(user string) {
		t.Helper()
		current().Status.StateChangedBy = user
		g.Expect(env.Client.Status().Update(t.Context(), apply)).To(Succeed())
	}
	stateChangedBy("approver")
	refused(t, "what follows from his own change of the state", decide(nil))
	refused(t, "the same with spec.approvedPlan", patched(approver, current(), func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = plan }))
	stateChangedBy("editor")
	allowed(t, "what follows from a change of the state by another user", func() error { return decide(nil) })
	stateChangedBy("")

	g.Expect(patched(as(t, managerUser), current(), func(a *infrav1.WorkspaceTemplateApply) {
		a.Annotations["capt.appthrust.io/changed-by-guest"] = "approver"
	})).To(Succeed())
	refused(t, "his own change of the workspace for which it runs", decide(nil))
	g.Expect(patched(as(t, managerUser), current(), func(a *infrav1.WorkspaceTemplateApply) {
		delete(a.Annotations, "capt.appthrust.io/changed-by-guest")
	})).To(Succeed())

	g.Expect(patched(approver, current(), func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Timeout = &metav1.Duration{Duration: 60e9} })).To(Succeed())
	refused(t, "his own change", decide(func(a *infrav1.WorkspaceApproval) { a.Spec.OwnChange = infrav1.OwnChangeNo }))
	refused(t, "a destruction by his own change", decide(allowDestroy))
	g.Expect(decide(func(a *infrav1.WorkspaceApproval) { a.Spec.Decision = infrav1.DecisionReject })).To(Succeed(), "rejecting it")
	withRoles(t, ns, "approver", "capt-self-approver")
	allowed(t, "with permission", func() error { return decide(allowDestroy) })
}

func TestApprover_cannotDecideAboutHisOwnDeletion(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	editor, approver := editor(t, ns), approver(t, ns)
	second := withRoles(t, ns, "second", "capt-viewer", "capt-approver")
	apply := workspace(t, editor, ns, "a", func(a *infrav1.WorkspaceTemplateApply) { a.Finalizers = []string{"capt.appthrust.io/test"} })
	t.Cleanup(func() {
		_ = patched(env.Client, apply, func(a *infrav1.WorkspaceTemplateApply) { a.Finalizers = nil })
	})
	decide := func(c client.Client) error {
		_, err := approve(t, c, ns, nil)
		return err
	}
	allowed(t, "before the deletion", func() error { return decide(approver) })
	g.Expect(approver.Delete(t.Context(), apply)).To(Succeed())
	refused(t, "his own deletion", decide(approver))
	allowed(t, "another approver", func() error { return decide(second) })
}

// These change the state, or the resources that belong to it, without a plan that is approved.
func TestEditor_cannotChangeStates(t *testing.T) {
	g := NewWithT(t)
	ns := env.Namespace(t)
	editor, approver := editor(t, ns), approver(t, ns)
	workspace(t, editor, ns, "a", nil)
	state := func(command string) infrav1.WorkspaceOperationSpec {
		return infrav1.WorkspaceOperationSpec{Type: infrav1.OperationState, State: &infrav1.StateOptions{Command: command}}
	}
	push, move := state("push"), state("mv")
	push.State.Input, move.State.Args = "input-x", []infrav1.AddressString{"a.b", "a.c"}
	remove, show := state("rm"), state("show")
	remove.State.Args, show.State.Args = []infrav1.AddressString{"a.b"}, []infrav1.AddressString{"a.b"}
	for what, spec := range map[string]infrav1.WorkspaceOperationSpec{
		"Restore": {Type: infrav1.OperationRestore, Restore: &infrav1.RestoreOptions{Snapshot: "s"}},
		"Move":    {Type: infrav1.OperationMove, Move: &infrav1.MoveOptions{To: "s3"}},
		"Adopt":   {Type: infrav1.OperationAdopt, Adopt: &infrav1.AdoptOptions{State: "x/1"}},
		"Unlock":  {Type: infrav1.OperationUnlock, Unlock: &infrav1.UnlockOptions{Lock: "x"}},
		"Run with import": {Type: infrav1.OperationRun, Run: &infrav1.RunOptions{
			Import: []infrav1.ImportedResource{{Address: "aws_vpc.this", ID: "vpc-1"}},
		}},
		"state push": push, "state mv": move, "state rm": remove,
	} {
		allowed(t, what, func() error {
			_, err := request(t, approver, ns, spec)
			return err
		})
		_, err := request(t, editor, ns, spec)
		refused(t, what, err)
		g.Expect(err).To(MatchError(ContainSubstring("the permission to create workspaceoperations/state: ask an approver")), what)
	}
	for what, spec := range map[string]infrav1.WorkspaceOperationSpec{
		"Run":              {Type: infrav1.OperationRun},
		"CheckDrift":       {Type: infrav1.OperationCheckDrift},
		"Cancel":           {Type: infrav1.OperationCancel, Cancel: &infrav1.CancelOptions{Run: "r1"}},
		"Shell":            {Type: infrav1.OperationShell, Shell: &infrav1.ShellOptions{ID: "shell-1"}},
		"Run with options": {Type: infrav1.OperationRun, Hold: true, Run: &infrav1.RunOptions{Replace: []infrav1.AddressString{"aws_vpc.this"}}},
		"state pull":       state("pull"), "state list": state("list"), "state show": show,
	} {
		_, err := request(t, editor, ns, spec)
		g.Expect(err).NotTo(HaveOccurred(), what)
	}
}
