package operate

import (
	"context"
	"maps"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/terraform/template"
)

func workspace(name string) *infrav1.WorkspaceTemplateApply {
	return &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: "1", Annotations: map[string]string{}}}
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
		"other plan":         {apply: plan(new(true)), id: "plan-2", err: "plan plan-2 is not waiting for approval; plan-1 is: review it with captctl plan net"},
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

func TestCheckProtected_readsTheAnnotationAsTheControllerDoes(t *testing.T) {
	const refused = "the plan would destroy or replace protected resources, or does not find them: allow it with --allow-destroy "
	for name, tc := range map[string]struct {
		annotation   string
		allowDestroy []string
		err          string
	}{
		"nothing allowed":         {err: refused + `'a.b,c.d["x,y"]'`},
		"all by annotation":       {annotation: `a.b,c.d["x,y"]`},
		"separated by a space":    {annotation: `a.b, c.d["x,y"]`},
		"separated by a line":     {annotation: "a.b\nc.d[\"x,y\"]\n"},
		"one by each":             {annotation: " a.b ", allowDestroy: []string{`c.d["x,y"]`}},
		"all by flag":             {allowDestroy: []string{"a.b", `c.d["x,y"]`}},
		"part of an address":      {annotation: `a.b,c.d["x`, err: refused + `'c.d["x,y"]'`},
		"other address by flag":   {annotation: "a.b", allowDestroy: []string{"c.d"}, err: refused + `'c.d["x,y"]'`},
		"other address by either": {annotation: "a", allowDestroy: []string{"c"}, err: refused + `'a.b,c.d["x,y"]'`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			apply := workspace("net")
			apply.Annotations[infrav1.AllowDestroyAnnotation] = tc.annotation
			plan := &infrav1.PlanStatus{Blocked: []string{"a.b", `c.d["x,y"]`}}
			if err := CheckProtected(apply, plan, tc.allowDestroy); tc.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(tc.err))
			}
			g.Expect(plan.Blocked).To(HaveLen(2), "the status is not changed")
		})
	}
}

func TestApprove_setsOnlyWhatTheApprovalModeNeeds(t *testing.T) {
	for name, tc := range map[string]struct {
		approval     infrav1.ApprovalMode
		operation    infrav1.PlanOperation
		annotations  map[string]string
		allowDestroy []string
		wantPlan     string
		want         map[string]string
	}{
		"manual approval":       {approval: infrav1.ApprovalManual, wantPlan: "plan-1"},
		"automatic approval":    {approval: infrav1.ApprovalAuto},
		"no approval mode":      {},
		"deletion":              {approval: infrav1.ApprovalAuto, operation: infrav1.PlanDestroy, wantPlan: "plan-1"},
		"allowed address":       {approval: infrav1.ApprovalAuto, allowDestroy: []string{"a.b"}, want: map[string]string{infrav1.AllowDestroyAnnotation: "a.b"}},
		"addresses are added":   {annotations: map[string]string{infrav1.AllowDestroyAnnotation: "a.b, c.d"}, allowDestroy: []string{"c.d", "e.f"}, want: map[string]string{infrav1.AllowDestroyAnnotation: "a.b,c.d,e.f"}},
		"addresses are kept":    {annotations: map[string]string{infrav1.AllowDestroyAnnotation: "a.b, c.d"}, want: map[string]string{infrav1.AllowDestroyAnnotation: "a.b, c.d"}},
		"rejection is removed":  {annotations: map[string]string{infrav1.RejectPlanAnnotation: "plan-1"}},
		"other rejection stays": {annotations: map[string]string{infrav1.RejectPlanAnnotation: "plan-0"}, want: map[string]string{infrav1.RejectPlanAnnotation: "plan-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			apply := workspace("net")
			maps.Copy(apply.Annotations, tc.annotations)
			plan := &infrav1.PlanStatus{ID: "plan-1", Operation: tc.operation}
			approve(apply, plan, needsApproval(plan, template.Policy{Approval: tc.approval}), tc.allowDestroy)
			g.Expect(apply.Spec.ApprovedPlan).To(Equal(tc.wantPlan))
			if len(tc.want) == 0 {
				g.Expect(apply.Annotations).To(BeEmpty())
			} else {
				g.Expect(apply.Annotations).To(Equal(tc.want))
			}
		})
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

func TestActions_writeAnnotations(t *testing.T) {
	ctx := context.Background()
	plan, run, lock := &infrav1.PlanStatus{ID: "plan-1"}, &infrav1.RunStatus{ID: "net-r1"}, &Lock{ID: "lock-1"}
	for name, tc := range map[string]struct {
		given *infrav1.WorkspaceTemplateApply
		act   func(client.Client, *infrav1.WorkspaceTemplateApply) (request string, err error)
		want  map[string]string
		// requested is the annotation that has the returned request.
		requested string
		err       string
	}{
		"approve a blocked plan": {
			act: func(c client.Client, a *infrav1.WorkspaceTemplateApply) (string, error) {
				return "", Approve(ctx, c, a, &infrav1.PlanStatus{ID: "plan-1", Blocked: []string{"a.b"}}, nil, "")
			},
			err: "allow it with --allow-destroy 'a.b'",
		},
		"approve": {
			act: func(c client.Client, a *infrav1.WorkspaceTemplateApply) (string, error) {
				return "", Approve(ctx, c, a, plan, []string{"a.b"}, " Agreed\nwith Bob ")
			},
			want: map[string]string{infrav1.AllowDestroyAnnotation: "a.b", infrav1.CommentAnnotation: "plan-1 Agreed with Bob"},
		},
		"approve with a comment that is too long": {
			act: func(c client.Client, a *infrav1.WorkspaceTemplateApply) (string, error) {
				return "", Approve(ctx, c, a, plan, nil, strings.Repeat("x", maxComment+1))
			},
			err: "longer than",
		},
		"reject with automatic approval": {
			act: func(c client.Client, a *infrav1.WorkspaceTemplateApply) (string, error) {
				return "", Reject(ctx, c, a, plan, "")
			},
			err: "net has approval: Auto",
		},
		"reject": {
			given: manual(workspace("net")),
			act: func(c client.Client, a *infrav1.WorkspaceTemplateApply) (string, error) {
				return "", Reject(ctx, c, a, plan, "")
			},
			want: map[string]string{infrav1.RejectPlanAnnotation: "plan-1"},
		},
		"cancel": {
			act: func(c client.Client, a *infrav1.WorkspaceTemplateApply) (string, error) {
				return "", Cancel(ctx, c, a, run)
			},
			want: map[string]string{infrav1.CancelRunAnnotation: "net-r1"},
		},
		"retry": {
			act:       func(c client.Client, a *infrav1.WorkspaceTemplateApply) (string, error) { return Retry(ctx, c, a) },
			requested: infrav1.RunRequestedAnnotation,
		},
		"unlock": {
			act: func(c client.Client, a *infrav1.WorkspaceTemplateApply) (string, error) {
				return Unlock(ctx, c, a, lock)
			},
			requested: infrav1.RunRequestedAnnotation,
			want:      map[string]string{infrav1.ForceUnlockAnnotation: "lock-1"},
		},
		"revoke unlock": {
			given: annotated(workspace("net"), infrav1.ForceUnlockAnnotation, "lock-1"),
			act: func(c client.Client, a *infrav1.WorkspaceTemplateApply) (string, error) {
				return "", RevokeUnlock(ctx, c, a)
			},
		},
		"check drift of a workspace that is not applied": {
			act: func(c client.Client, a *infrav1.WorkspaceTemplateApply) (string, error) { return CheckDrift(ctx, c, a) },
			err: "net was never applied",
		},
		"check drift": {
			given:     applied(workspace("net")),
			act:       func(c client.Client, a *infrav1.WorkspaceTemplateApply) (string, error) { return CheckDrift(ctx, c, a) },
			requested: infrav1.CheckDriftAnnotation,
		},
		"restore": {
			act: func(c client.Client, a *infrav1.WorkspaceTemplateApply) (string, error) {
				return "", Restore(ctx, c, a, Snapshot{Name: "s-0"}, false)
			},
			want: map[string]string{infrav1.RestoreSnapshotAnnotation: "s-0@1"},
		},
		"restore the snapshot that was restored last": {
			given: restored(annotated(workspace("net"), infrav1.RestoreSnapshotAnnotation, "s-0@1"), "s-0"),
			act: func(c client.Client, a *infrav1.WorkspaceTemplateApply) (string, error) {
				return "", Restore(ctx, c, a, Snapshot{Name: "s-0"}, false)
			},
			err: "a snapshot cannot be restored twice in a row",
		},
		"restore a snapshot whose annotation was removed": {
			given: restored(workspace("net"), "s-0"),
			act: func(c client.Client, a *infrav1.WorkspaceTemplateApply) (string, error) {
				return "", Restore(ctx, c, a, Snapshot{Name: "s-0"}, false)
			},
			want: map[string]string{infrav1.RestoreSnapshotAnnotation: "s-0@1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			apply := tc.given
			if apply == nil {
				apply = workspace("net")
			}
			c := newClient(apply)
			request, err := tc.act(c, apply)
			if tc.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tc.err)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			stored := &infrav1.WorkspaceTemplateApply{}
			g.Expect(c.Get(ctx, client.ObjectKeyFromObject(apply), stored)).To(Succeed())
			want := map[string]string{}
			maps.Copy(want, tc.want)
			if tc.requested != "" {
				g.Expect(request).NotTo(BeEmpty())
				want[tc.requested] = request
			}
			if len(want) == 0 {
				g.Expect(stored.Annotations).To(BeEmpty())
			} else {
				g.Expect(stored.Annotations).To(Equal(want))
			}
		})
	}
}

func TestRestore_holdsThePlanOnRequest(t *testing.T) {
	for hold, want := range map[bool]infrav1.ApprovalMode{false: "", true: infrav1.ApprovalManual} {
		g := NewWithT(t)
		apply := workspace("net")
		g.Expect(Restore(t.Context(), newClient(apply), apply, Snapshot{Name: "s-0"}, hold)).To(Succeed())
		g.Expect(apply.Spec.Approval).To(Equal(want))
	}
}

func manual(apply *infrav1.WorkspaceTemplateApply) *infrav1.WorkspaceTemplateApply {
	apply.Spec.Approval = infrav1.ApprovalManual
	return apply
}

func annotated(apply *infrav1.WorkspaceTemplateApply, key, value string) *infrav1.WorkspaceTemplateApply {
	apply.Annotations[key] = value
	return apply
}

func applied(apply *infrav1.WorkspaceTemplateApply) *infrav1.WorkspaceTemplateApply {
	apply.Status.Conditions = []metav1.Condition{{Type: infrav1.AppliedCondition, Status: metav1.ConditionTrue}}
	return apply
}

func restored(apply *infrav1.WorkspaceTemplateApply, snapshot string) *infrav1.WorkspaceTemplateApply {
	apply.Status.HandledRestore = snapshot
	return apply
}
