package doctor

import (
	"regexp"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/manager"
)

func conditionAt(name string, status metav1.ConditionStatus, reason string, age time.Duration) metav1.Condition {
	return metav1.Condition{Type: name, Status: status, Reason: reason, Message: "details", LastTransitionTime: ago(age)}
}

func TestWorkspaceProblem(t *testing.T) {
	ready := func(status metav1.ConditionStatus, reason string, age time.Duration) metav1.Condition {
		return conditionAt(infrav1.ReadyCondition, status, reason, age)
	}
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		observed   int64
		age        time.Duration
		deleted    bool
		want       *Result
	}{
		"ready":                   {observed: 2, conditions: []metav1.Condition{ready("True", "Ready", time.Hour)}},
		"no condition":            {observed: 2},
		"not observed, new":       {observed: 1, age: 5*time.Minute - time.Second},
		"not observed":            {observed: 1, age: 5 * time.Minute, want: &Result{Status: Warn, Message: "no manager has observed its latest change", Fix: "check that a manager is running that watches namespace team"}},
		"failed":                  {observed: 2, conditions: []metav1.Condition{ready("False", infrav1.RunFailedReason, 0)}, want: &Result{Status: Fail, Message: "for 0s: RunFailed: details", Fix: "fix the error in the message, then captctl reconcile -n team net"}},
		"failed while deleted":    {observed: 2, deleted: true, conditions: []metav1.Condition{ready("False", infrav1.RunFailedReason, 0)}},
		"waiting":                 {observed: 2, conditions: []metav1.Condition{ready("False", infrav1.QueuedReason, 15*time.Minute)}},
		"waiting too long":        {observed: 2, conditions: []metav1.Condition{ready("False", infrav1.LockHeldReason, 20*time.Minute)}, want: &Result{Status: Warn, Message: "for 20m: LockHeld: details", Fix: "captctl unlock -n team net"}},
		"interrupted":             {observed: 2, conditions: []metav1.Condition{ready("False", infrav1.RunInterruptedReason, time.Hour)}},
		"interrupted each time":   {observed: 2, conditions: []metav1.Condition{ready("False", infrav1.RunInterruptedReason, 2*time.Hour)}, want: &Result{Status: Warn, Message: "for 120m: RunInterrupted: details", Fix: "captctl logs -n team net; if the pods of its runs are killed or evicted, raise spec.runner.resources of the WorkspaceProviderConfig"}},
		"waiting for other cause": {observed: 2, conditions: []metav1.Condition{ready("False", "SomethingNew", 100*time.Hour)}},
		"drift check failed once": {observed: 2, conditions: []metav1.Condition{ready("True", "Ready", 0), conditionAt(infrav1.NoDriftCondition, "Unknown", infrav1.DriftCheckFailedReason, time.Hour)}},
		"drift checks fail":       {observed: 2, conditions: []metav1.Condition{ready("True", "Ready", 0), conditionAt(infrav1.NoDriftCondition, "Unknown", infrav1.DriftCheckFailedReason, 2*time.Hour)}, want: &Result{Status: Warn, Message: "for 120m: DriftCheckFailed: details", Fix: "fix the error in the message, then captctl drift -n team net --now"}},
		"drift checks fail, and a run": {
			observed:   2,
			conditions: []metav1.Condition{ready("False", infrav1.RunFailedReason, 0), conditionAt(infrav1.NoDriftCondition, "Unknown", infrav1.DriftCheckFailedReason, 2*time.Hour)},
			want:       &Result{Status: Fail, Message: "for 0s: RunFailed: details", Fix: "fix the error in the message, then captctl reconcile -n team net"},
		},
		"drift checks fail while deleted": {observed: 2, deleted: true, conditions: []metav1.Condition{conditionAt(infrav1.NoDriftCondition, "Unknown", infrav1.DriftCheckFailedReason, 2*time.Hour)}},
		"time of the cause": {
			observed: 2,
			conditions: []metav1.Condition{
				ready("False", infrav1.LockHeldReason, time.Minute), conditionAt("Other", "False", "Other", time.Hour),
				conditionAt(infrav1.AppliedCondition, "False", infrav1.LockHeldReason, 30*time.Minute), conditionAt("Fine", "True", infrav1.LockHeldReason, 0),
			},
			want: &Result{Status: Warn, Message: "for 30m: LockHeld: details", Fix: "captctl unlock -n team net"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: named("net")}
			apply.Generation, apply.CreationTimestamp = 2, ago(tc.age)
			apply.Status.ObservedGeneration, apply.Status.Conditions = tc.observed, tc.conditions
			if tc.deleted {
				apply.DeletionTimestamp = new(ago(0))
			}
			if tc.want != nil {
				tc.want.Object = "WorkspaceTemplateApply team/net"
			}
			NewWithT(t).Expect(workspaceProblem(apply, now)).To(Equal(tc.want))
		})
	}
}

func TestFixes_eachReasonHasOneKind(t *testing.T) {
	for reason := range failureFixes {
		NewWithT(t).Expect(waitLimits).NotTo(HaveKey(reason))
	}
}

func TestDeletionProblem(t *testing.T) {
	destroyed := conditionAt(infrav1.DestroyedCondition, "False", "Reason", 0)
	destroyed.Message = "destroying"
	for name, tc := range map[string]struct {
		deleted    *metav1.Time
		conditions []metav1.Condition
		want       string
	}{
		"not deleted":              {},
		"short":                    {deleted: new(ago(15 * time.Minute))},
		"long":                     {deleted: new(ago(16 * time.Minute)), want: "deletion started 16m ago; finalizers: a, b"},
		"with a cause":             {deleted: new(ago(time.Hour)), conditions: []metav1.Condition{conditionAt(infrav1.ReadyCondition, "False", "Reason", 0)}, want: "deletion started 60m ago; finalizers: a, b; details"},
		"with a failed destroy":    {deleted: new(ago(time.Hour)), conditions: []metav1.Condition{conditionAt(infrav1.ReadyCondition, "False", "Reason", 0), destroyed}, want: "deletion started 60m ago; finalizers: a, b; destroying"},
		"ready until the deletion": {deleted: new(ago(time.Hour)), conditions: []metav1.Condition{conditionAt(infrav1.ReadyCondition, "True", "Ready", 0)}, want: "deletion started 60m ago; finalizers: a, b"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: named("net")}
			apply.Finalizers, apply.DeletionTimestamp, apply.Status.Conditions = []string{"a", "b"}, tc.deleted, tc.conditions
			problem := deletionProblem(apply, "workspacetemplateapply", now)
			if tc.want == "" {
				g.Expect(problem).To(BeNil())
				return
			}
			g.Expect(problem.Message).To(Equal(tc.want))
			g.Expect(problem.Object).To(Equal("WorkspaceTemplateApply team/net"))
			g.Expect(problem.Status).To(Equal(Warn))
			g.Expect(problem.Fix).To(HavePrefix("kubectl describe -n team workspacetemplateapply net"))
		})
	}
}

func TestWaitLimits_nameFlagsOfTheManager(t *testing.T) {
	flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	manager.NewOptions().AddFlags(flags)
	for reason, limit := range waitLimits {
		for _, match := range regexp.MustCompile(`--([a-z-]+) of the manager`).FindAllStringSubmatch(limit.fix, -1) {
			if flags.Lookup(match[1]) == nil {
				t.Errorf("%s: the manager has no flag --%s", reason, match[1])
			}
		}
	}
}
