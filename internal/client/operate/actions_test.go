package operate

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

func workspace(name string) *infrav1.WorkspaceTemplateApply {
	return &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: "1"}}
}

func newClient(objects ...client.Object) client.WithWatch {
	return fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...).Build()
}

func TestWaitingPlan_isThePlanThatWasReviewed(t *testing.T) {
	plan := func(waiting *bool) *infrav1.WorkspaceTemplateApply {
		a := workspace("net")
		a.Status.Plan = &infrav1.PlanStatus{ID: "plan-1", Waiting: waiting}
		return a
	}
	for name, tc := range map[string]struct {
		apply *infrav1.WorkspaceTemplateApply
		id    string
		err   string
	}{
		"any plan":           {apply: plan(new(true))},
		"named plan":         {apply: plan(new(true)), id: "plan-1"},
		"other plan":         {apply: plan(new(true)), id: "plan-2", err: "plan plan-2 is not waiting for approval; plan-1 is: review it with captctl show plan net"},
		"applied plan":       {apply: plan(nil), err: "no plan of net is waiting for approval: see captctl history net"},
		"plan does not wait": {apply: plan(new(false)), id: "plan-1", err: "no plan of net is waiting for approval: see captctl history net"},
		"no plan":            {apply: workspace("net"), err: "no plan of net is waiting for approval: see captctl history net"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			found, err := WaitingPlan(tc.apply, tc.id)
			if tc.err != "" {
				g.Expect(err).To(MatchError(tc.err))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found.ID).To(Equal("plan-1"))
		})
	}
}

func TestCheckProtected(t *testing.T) {
	const refused = "the plan would destroy or replace protected resources, or does not find them: allow it with --allow-destroy 'a.b,c.d[\"x,y\"]'"
	for name, tc := range map[string]struct {
		allowDestroy []string
		err          string
	}{
		"nothing":           {err: refused},
		"all":               {allowDestroy: []string{"a.b", `c.d["x,y"]`}},
		"one of two":        {allowDestroy: []string{"a.b"}, err: refused},
		"part of addresses": {allowDestroy: []string{"a.b", "c.d", `c.d["x`}, err: refused},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			plan := &infrav1.PlanStatus{Blocked: []string{"a.b", `c.d["x,y"]`}}
			if err := CheckProtected(plan, tc.allowDestroy); tc.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(tc.err))
			}
			g.Expect(plan.Blocked).To(HaveLen(2), "the status is not changed")
		})
	}
}

func TestNeedsApproval(t *testing.T) {
	for name, tc := range map[string]struct {
		approval infrav1.ApprovalMode
		heldBy   string
		plan     infrav1.PlanStatus
		want     bool
	}{
		"manual approval":    {approval: infrav1.ApprovalManual, want: true},
		"automatic approval": {approval: infrav1.ApprovalAuto},
		"no approval mode":   {},
		"held":               {approval: infrav1.ApprovalAuto, heldBy: "net-restore", want: true},
		"deletion":           {approval: infrav1.ApprovalAuto, plan: infrav1.PlanStatus{Operation: infrav1.PlanDestroy}, want: true},
		"requested":          {approval: infrav1.ApprovalAuto, plan: infrav1.PlanStatus{Request: &infrav1.RunRequest{}}, want: true},
		"policy":             {approval: infrav1.ApprovalAuto, plan: infrav1.PlanStatus{PolicyAction: infrav1.PolicyRequireApproval}, want: true},
	} {
		net := workspace("net")
		net.Status.HeldBy = tc.heldBy
		NewWithT(t).Expect(needsApproval(net, &tc.plan, template.Policy{Approval: tc.approval})).To(Equal(tc.want), name)
	}
}

func TestCurrentRun_isTheRunThatWasNamed(t *testing.T) {
	running := workspace("net")
	running.Status.Run = &infrav1.RunStatus{ID: "net-r2"}
	for name, tc := range map[string]struct {
		apply *infrav1.WorkspaceTemplateApply
		id    string
		err   string
	}{
		"any run":   {apply: running},
		"named run": {apply: running, id: "net-r2"},
		"other run": {apply: running, id: "net-r1", err: "run net-r1 is not running; net-r2 is"},
		"no run":    {apply: workspace("net"), err: "net has no run in progress: see captctl history net"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			run, err := CurrentRun(tc.apply, tc.id)
			if tc.err != "" {
				g.Expect(err).To(MatchError(tc.err))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(run.ID).To(Equal("net-r2"))
		})
	}
}

func TestDecisions(t *testing.T) {
	plan := &infrav1.PlanStatus{ID: "plan-1"}
	for name, tc := range map[string]struct {
		given *infrav1.WorkspaceTemplateApply
		act   func(context.Context, client.Client, *infrav1.WorkspaceTemplateApply) error
		want  infrav1.WorkspaceApprovalSpec
		err   string
	}{
		"approve": {
			act: func(ctx context.Context, c client.Client, a *infrav1.WorkspaceTemplateApply) error {
				return Approve(ctx, c, a, plan, []string{"a.b"}, " Agreed\nwith Bob ")
			},
			want: infrav1.WorkspaceApprovalSpec{Decision: infrav1.DecisionApprove, AllowDestroy: []string{"a.b"}, Comment: "Agreed with Bob"},
		},
		"approve a blocked plan": {
			act: func(ctx context.Context, c client.Client, a *infrav1.WorkspaceTemplateApply) error {
				return Approve(ctx, c, a, &infrav1.PlanStatus{ID: "plan-1", Blocked: []string{"a.b"}}, nil, "")
			},
			err: "allow it with --allow-destroy 'a.b'",
		},
		"approve a denied plan": {
			act: func(ctx context.Context, c client.Client, a *infrav1.WorkspaceTemplateApply) error {
				return Approve(ctx, c, a, &infrav1.PlanStatus{ID: "plan-1", PolicyAction: infrav1.PolicyDeny}, nil, "")
			},
			err: "a policy denies plan plan-1",
		},
		"reject with automatic approval": {
			act: func(ctx context.Context, c client.Client, a *infrav1.WorkspaceTemplateApply) error {
				return Reject(ctx, c, a, plan, "")
			},
			err: "net has approval: Auto",
		},
		"reject": {
			given: manual(workspace("net")),
			act: func(ctx context.Context, c client.Client, a *infrav1.WorkspaceTemplateApply) error {
				return Reject(ctx, c, a, plan, "Wait")
			},
			want: infrav1.WorkspaceApprovalSpec{Decision: infrav1.DecisionReject, Comment: "Wait"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			apply := tc.given
			if apply == nil {
				apply = workspace("net")
			}
			c := newClient(apply)
			err := tc.act(t.Context(), c, apply)
			var list infrav1.WorkspaceApprovalList
			g.Expect(c.List(t.Context(), &list)).To(Succeed())
			if tc.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tc.err)))
				g.Expect(list.Items).To(BeEmpty())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(list.Items).To(HaveLen(1))
			g.Expect(list.Items[0].Name).To(HavePrefix("net-"))
			tc.want.Workspace, tc.want.WorkspaceUID, tc.want.Plan = "net", "1", "plan-1"
			g.Expect(list.Items[0].Spec).To(Equal(tc.want))
		})
	}
}

func TestRequests(t *testing.T) {
	for name, tc := range map[string]struct {
		given *infrav1.WorkspaceTemplateApply
		act   func(context.Context, client.Client, *infrav1.WorkspaceTemplateApply) (*infrav1.WorkspaceOperation, error)
		want  infrav1.WorkspaceOperationSpec
		err   string
	}{
		"cancel": {
			act: func(ctx context.Context, c client.Client, a *infrav1.WorkspaceTemplateApply) (*infrav1.WorkspaceOperation, error) {
				return nil, Cancel(ctx, c, a, &infrav1.RunStatus{ID: "net-r1"})
			},
			want: infrav1.WorkspaceOperationSpec{Type: infrav1.OperationCancel, Cancel: &infrav1.CancelOptions{Run: "net-r1"}},
		},
		"retry": {
			act: func(ctx context.Context, c client.Client, a *infrav1.WorkspaceTemplateApply) (*infrav1.WorkspaceOperation, error) {
				return Retry(ctx, c, a)
			},
			want: infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRun},
		},
		"run once": {
			act: func(ctx context.Context, c client.Client, a *infrav1.WorkspaceTemplateApply) (*infrav1.WorkspaceOperation, error) {
				return RunOnce(ctx, c, a, &terraform.OneShot{Import: []terraform.Import{{Address: "a.b", ID: "x"}}, Hold: true})
			},
			want: infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRun, Hold: true, Run: &infrav1.RunOptions{Import: []infrav1.ImportedResource{{Address: "a.b", ID: "x"}}}},
		},
		"unlock": {
			act: func(ctx context.Context, c client.Client, a *infrav1.WorkspaceTemplateApply) (*infrav1.WorkspaceOperation, error) {
				return Unlock(ctx, c, a, &Lock{ID: "lock-1"})
			},
			want: infrav1.WorkspaceOperationSpec{Type: infrav1.OperationUnlock, Unlock: &infrav1.UnlockOptions{Lock: "lock-1"}},
		},
		"check drift of a workspace that is not applied": {
			act: func(ctx context.Context, c client.Client, a *infrav1.WorkspaceTemplateApply) (*infrav1.WorkspaceOperation, error) {
				return CheckDrift(ctx, c, a)
			},
			err: "net was never applied",
		},
		"check drift": {
			given: applied(workspace("net")),
			act: func(ctx context.Context, c client.Client, a *infrav1.WorkspaceTemplateApply) (*infrav1.WorkspaceOperation, error) {
				return CheckDrift(ctx, c, a)
			},
			want: infrav1.WorkspaceOperationSpec{Type: infrav1.OperationCheckDrift},
		},
		"restore": {
			act: func(ctx context.Context, c client.Client, a *infrav1.WorkspaceTemplateApply) (*infrav1.WorkspaceOperation, error) {
				return Restore(ctx, c, a, Snapshot{Name: "s-0"}, false)
			},
			want: infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRestore, Restore: &infrav1.RestoreOptions{Snapshot: "s-0"}},
		},
		"restore and hold": {
			act: func(ctx context.Context, c client.Client, a *infrav1.WorkspaceTemplateApply) (*infrav1.WorkspaceOperation, error) {
				return Restore(ctx, c, a, Snapshot{Name: "s-0"}, true)
			},
			want: infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRestore, Hold: true, Restore: &infrav1.RestoreOptions{Snapshot: "s-0"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			apply := tc.given
			if apply == nil {
				apply = workspace("net")
			}
			c := newClient(apply)
			before := apply.DeepCopy()
			requested, err := tc.act(t.Context(), c, apply)
			g.Expect(apply.Spec).To(Equal(before.Spec))
			found, listErr := operations(t.Context(), c, apply, func(*infrav1.WorkspaceOperation) bool { return true })
			g.Expect(listErr).NotTo(HaveOccurred())
			if tc.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tc.err)))
				g.Expect(found).To(BeEmpty())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found).To(HaveLen(1))
			tc.want.Workspace, tc.want.WorkspaceUID = "net", "1"
			g.Expect(found[0].Spec).To(Equal(tc.want))
			g.Expect(found[0].Ended()).To(BeFalse())
			if requested != nil {
				g.Expect(requested.Name).To(And(HavePrefix("net-"), Equal(found[0].Name)))
			}
		})
	}
}

func TestRequests_nameTheRoleThatMay(t *testing.T) {
	g := NewWithT(t)
	resource := schema.GroupResource{Group: infrav1.GroupVersion.Group, Resource: "workspaceapprovals"}
	reason := `User "bob" cannot create resource "workspaceapprovals" in API group "` + resource.Group + `" in the namespace "team"`
	refuse := interceptor.NewClient(newClient(), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return apierrors.NewForbidden(resource, "", errors.New(reason))
		},
	})
	err := Approve(t.Context(), refuse, workspace("net"), &infrav1.PlanStatus{ID: "plan-1"}, nil, "")
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue())
	g.Expect(err).To(MatchError(And(ContainSubstring(reason), HaveSuffix("(the role capt-approver allows it)"))))
	reason = "you changed the workspace last"
	_, err = Retry(t.Context(), refuse, workspace("net"))
	g.Expect(err).To(MatchError(HaveSuffix(reason)), "an admission webhook says what is missing")
}

func TestWithdraw(t *testing.T) {
	for phase, tc := range map[infrav1.OperationPhase]struct{ before, evenStarted bool }{
		"":                         {true, true},
		infrav1.OperationPending:   {true, true},
		infrav1.OperationRunning:   {false, true},
		infrav1.OperationSucceeded: {false, false},
		infrav1.OperationFailed:    {false, false},
	} {
		for _, evenStarted := range []bool{false, true} {
			g := NewWithT(t)
			operation := &infrav1.WorkspaceOperation{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "net-1"}}
			operation.Status.Phase = phase
			c := newClient(operation)
			want := tc.before
			if evenStarted {
				want = tc.evenStarted
			}
			g.Expect(Withdraw(t.Context(), c, operation, evenStarted)).To(Equal(want), "%q", phase)
			err := c.Get(t.Context(), client.ObjectKeyFromObject(operation), operation)
			g.Expect(apierrors.IsNotFound(err)).To(Equal(want), "%q", phase)
		}
	}
	gone := &infrav1.WorkspaceOperation{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "net-1"}}
	NewWithT(t).Expect(Withdraw(t.Context(), newClient(), gone, false)).To(BeTrue())
}

func manual(apply *infrav1.WorkspaceTemplateApply) *infrav1.WorkspaceTemplateApply {
	apply.Spec.Approval = infrav1.ApprovalManual
	return apply
}

func applied(apply *infrav1.WorkspaceTemplateApply) *infrav1.WorkspaceTemplateApply {
	apply.Status.Conditions = []metav1.Condition{{Type: infrav1.AppliedCondition, Status: metav1.ConditionTrue}}
	return apply
}
