package workspacetemplateapply

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// newOperation returns an operation of the workspace n/hello, as admission completes it.
func newOperation(name string, spec infrav1.WorkspaceOperationSpec) *infrav1.WorkspaceOperation {
	o := &infrav1.WorkspaceOperation{ObjectMeta: objectMeta(name), Spec: spec}
	o.UID, o.CreationTimestamp = types.UID("uid-"+name), metav1.NewTime(noon)
	o.Spec.Workspace, o.Spec.WorkspaceUID, o.Spec.RequestedBy = "hello", "u", "eve"
	return o
}

func newRunOperation(name string, options ...infrav1.RunOptions) *infrav1.WorkspaceOperation {
	o := newOperation(name, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRun})
	if len(options) > 0 {
		o.Spec.Run = &options[0]
	}
	return o
}

// held makes the plan of an operation wait for approval.
func held(o *infrav1.WorkspaceOperation) *infrav1.WorkspaceOperation {
	o.Spec.Hold = true
	return o
}

func newCancelOperation(run string) *infrav1.WorkspaceOperation {
	return newOperation("cancel-"+run, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationCancel, Cancel: &infrav1.CancelOptions{Run: run}})
}

func newUnlockOperation(lock string) *infrav1.WorkspaceOperation {
	return newOperation("unlock", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationUnlock, Unlock: &infrav1.UnlockOptions{Lock: lock}})
}

func newRestoreOperation(name, snapshot string) *infrav1.WorkspaceOperation {
	return newOperation(name, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRestore, Restore: &infrav1.RestoreOptions{Snapshot: snapshot}})
}

func newStateOperation(options infrav1.StateOptions) *infrav1.WorkspaceOperation {
	return newOperation("command", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationState, State: &options})
}

func newAdoptOperation(options infrav1.AdoptOptions) *infrav1.WorkspaceOperation {
	return newOperation("adopt", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationAdopt, Adopt: &options})
}

// ask adds operations to those of a workspace.
func ask(s *execution.Scope, operations ...*infrav1.WorkspaceOperation) {
	s.Requests.Operations = append(s.Requests.Operations, operations...)
}

// newDecision returns a decision of a user about a plan of the workspace n/hello.
func newDecision(name, plan string, decision infrav1.ApprovalDecision, changes ...func(*infrav1.WorkspaceApproval)) *infrav1.WorkspaceApproval {
	a := &infrav1.WorkspaceApproval{ObjectMeta: objectMeta(name), Spec: infrav1.WorkspaceApprovalSpec{
		Workspace: "hello", WorkspaceUID: "u", Plan: plan, Decision: decision, DecidedBy: "alice", OwnChange: infrav1.OwnChangeNo,
	}}
	a.UID, a.CreationTimestamp = types.UID("uid-"+name), metav1.NewTime(noon)
	for _, change := range changes {
		change(a)
	}
	return a
}

// request creates an operation or an approval.
func (c *testController) request(obj client.Object) {
	c.t.Helper()
	c.Expect(c.server.Create(c.t.Context(), obj)).To(Succeed())
}

func (c *testController) requested(name string) *infrav1.WorkspaceOperation {
	c.t.Helper()
	o := &infrav1.WorkspaceOperation{}
	c.Expect(c.server.Get(c.t.Context(), key(name), o)).To(Succeed())
	return o
}

// expectPhase expects a phase of an operation, and returns its message.
func (c *testController) expectPhase(name string, phase infrav1.OperationPhase) string {
	c.t.Helper()
	status := c.requested(name).Status
	c.Expect(status.Phase).To(Equal(phase), status.Message)
	return status.Message
}

// changeInputs changes a value that the template takes from a Secret.
func (c *testController) changeInputs() {
	c.t.Helper()
	secret := &corev1.Secret{}
	c.Expect(c.server.Get(c.t.Context(), key("values"), secret)).To(Succeed())
	secret.Data["k"] = []byte("new")
	c.Expect(c.server.Update(c.t.Context(), secret)).To(Succeed())
}

// appliedController returns the controller of a workspace whose first run has succeeded.
func appliedController(t *testing.T, changes ...func(*infrav1.WorkspaceTemplateApply)) *testController {
	t.Helper()
	c := newTestController(t, append(values(), newApply(changes...))...)
	c.reconcile()
	c.finish("hello-r1", success)
	c.reconcile()
	c.expect(infrav1.AppliedCondition, "True Applied")
	return c
}

// A user may request any number of runs at once.
func TestRunOperation_isOneOfMany(t *testing.T) {
	c := appliedController(t)
	for i := range 101 {
		c.request(newRunOperation(fmt.Sprintf("again-%03d", i)))
	}
	for _, id := range []string{"hello-r2", "hello-r3"} {
		c.reconcile()
		c.finish(id, success)
		c.reconcile()
	}
	c.expectPhase("again-099", infrav1.OperationSucceeded)
	c.Expect(c.requested("again-099").Status.Run).To(Equal("hello-r2"))
	c.Expect(c.requested("again-100").Status.Run).To(Equal("hello-r3"))
	c.Expect(c.runSecret("hello-r3").Annotations).To(HaveKeyWithValue(record.OperationsAnnotation, "uid-again-100"))
	c.reconcile()
	c.Expect(c.started).To(HaveLen(3))
}

func TestRunOperation_isExecutedOnce(t *testing.T) {
	c := appliedController(t)
	c.request(newRunOperation("again"))
	c.reconcile()
	c.Expect(c.started).To(Equal([]string{"hello-r1", "hello-r2"}))
	c.Expect(c.runSecret("hello-r2").Annotations).To(HaveKeyWithValue(record.OperationsAnnotation, "uid-again"))
	c.Expect(c.given[1].Module.Refetch).To(BeTrue(), "the module is resolved again")
	c.reconcile()
	c.expectPhase("again", infrav1.OperationRunning)
	c.finish("hello-r2", success)
	c.reconcile()
	c.Expect(c.expectPhase("again", infrav1.OperationSucceeded)).To(ContainSubstring("0 added, 0 changed, 1 destroyed"))
	c.Expect(c.requested("again").Status.Run).To(Equal("hello-r2"))
	c.Expect(c.requested("again").Status.FinishedAt.Time).To(BeTemporally("==", noon))
	c.reconcile()
	c.Expect(c.started).To(HaveLen(2))
	c.Expect(c.get().Status.History[0].Request).To(Equal(&infrav1.RunRequest{ID: "uid-again", Arguments: "retry", RequestedBy: "eve"}))
	c.Expect(c.get().Status.Plan.Request).To(BeNil(), "any approver may decide about the plan")
}

// Each call fails once: no operation is executed twice, and none is forgotten.
func TestRunOperation_survivesEachFailure(t *testing.T) {
	for failAt := 1; ; failAt++ {
		c := appliedController(t)
		c.request(newRunOperation("again"))
		c.calls, c.failAt = 0, failAt
		for range 3 {
			c.reconcile()
		}
		id := c.get().Status.Run.ID // A number is never used again.
		c.finish(id, success)
		for range 3 {
			c.reconcile()
		}
		c.expectPhase("again", infrav1.OperationSucceeded)
		c.Expect(c.started).To(Equal([]string{"hello-r1", id}))
		if c.failAt > c.calls {
			return
		}
	}
}

func TestRunOperation_overridesAFailure(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.finish("hello-r1", terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal})
	c.reconcile()
	c.expect(infrav1.AppliedCondition, "False RunFailed")
	c.request(newRunOperation("again"))
	c.reconcile()
	c.Expect(c.started).To(HaveLen(2))
	c.finish("hello-r2", terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal})
	c.reconcile()
	c.expectPhase("again", infrav1.OperationFailed)
	c.Expect(c.started).To(HaveLen(2), "the user decides about another attempt")
}

// The operation continues with the next run: the user sees how that ends.
func TestRunOperation_continuesAfterAnInterruption(t *testing.T) {
	c := appliedController(t)
	c.request(newRunOperation("again"))
	c.reconcile()
	c.finish("hello-r2", terraform.Result{Outcome: terraform.OutcomeInterrupted, Class: terraform.ClassTransient})
	c.reconcile()
	c.Expect(c.started).To(HaveLen(3))
	c.reconcile()
	c.expectPhase("again", infrav1.OperationRunning)
	c.finish("hello-r3", success)
	c.reconcile()
	c.expectPhase("again", infrav1.OperationSucceeded)
}

func TestCancelOperation_stopsTheRun(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.request(newCancelOperation("hello-r1"))
	c.request(newCancelOperation("hello-r7"))
	c.reconcile()
	c.Expect(c.stopped).To(Equal([]string{"hello-r1"}))
	c.expectPhase("cancel-hello-r1", infrav1.OperationRunning)
	c.Expect(c.expectPhase("cancel-hello-r7", infrav1.OperationFailed)).To(Equal("Run hello-r7 is not in progress"))
	c.finish("hello-r1", terraform.Result{Outcome: terraform.OutcomeInterrupted, Class: terraform.ClassTransient})
	c.reconcile()
	c.expectPhase("cancel-hello-r1", infrav1.OperationSucceeded)
	c.expect(infrav1.AppliedCondition, "False RunCanceled")
	c.reconcile()
	c.Expect(c.started).To(HaveLen(1))
}

func manual(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.Approval = infrav1.ApprovalManual }

func TestApproval_appliesThePlan(t *testing.T) {
	tests := []struct {
		name      string
		decisions []*infrav1.WorkspaceApproval
		applied   bool
		state     string
	}{
		{"none", nil, false, "False WaitingForApproval"},
		{"approved", []*infrav1.WorkspaceApproval{newDecision("a", planID, infrav1.DecisionApprove)}, true, "False RunInProgress"},
		{"another plan", []*infrav1.WorkspaceApproval{newDecision("a", "plan-ffffffffffffffff", infrav1.DecisionApprove)}, false, "False WaitingForApproval"},
		{"an earlier workspace", []*infrav1.WorkspaceApproval{newDecision("a", planID, infrav1.DecisionApprove, func(a *infrav1.WorkspaceApproval) { a.Spec.WorkspaceUID = "old" })}, false, "False WaitingForApproval"},
		{"rejected", []*infrav1.WorkspaceApproval{newDecision("a", planID, infrav1.DecisionReject)}, false, "False PlanRejected"},
		{"both in one second", []*infrav1.WorkspaceApproval{newDecision("a", planID, infrav1.DecisionReject), newDecision("b", planID, infrav1.DecisionApprove)}, false, "False PlanRejected"},
		{"the latest counts", []*infrav1.WorkspaceApproval{newDecision("a", planID, infrav1.DecisionReject), newDecision("b", planID, infrav1.DecisionApprove, func(a *infrav1.WorkspaceApproval) {
			a.CreationTimestamp = metav1.NewTime(noon.Add(time.Second))
		})}, true, "False RunInProgress"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newTestController(t, append(values(), newApply(manual))...)
			c.reconcile()
			c.finish("hello-r1", terraform.Result{Outcome: terraform.OutcomePlanned, Plan: aPlan})
			for _, d := range tt.decisions {
				c.request(d.DeepCopy())
			}
			c.reconcile()
			c.expect(infrav1.AppliedCondition, tt.state)
			c.Expect(c.started).To(HaveLen(map[bool]int{false: 1, true: 2}[tt.applied]))
			if tt.applied {
				c.Expect(c.get().Status.Plan).To(HaveField("ApprovedBy", "alice"))
			}
		})
	}
}

// The other template may require less, and that is not approved.
func TestApproval_endsWithTheTemplate(t *testing.T) {
	other := newTemplate()
	other.Name = "other"
	c := newTestController(t, append(values(), other, newApply(manual))...)
	c.reconcile()
	c.finish("hello-r1", terraform.Result{Outcome: terraform.OutcomePlanned, Plan: aPlan})
	c.reconcile()
	c.request(newDecision("a", planID, infrav1.DecisionApprove))
	c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRef.Name = "other" })
	c.reconcile()
	c.Expect(c.given).To(HaveLen(2))
	c.Expect(c.given[1].Operation).To(Equal(terraform.OperationPlan))
}

func TestApproval_releasesProtectedResourcesOfItsPlan(t *testing.T) {
	c := newTestController(t, append(values(), newApply(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Protect = []infrav1.ProtectPattern{"aws_vpc.new"} }))...)
	c.reconcile()
	c.finish("hello-r1", terraform.Result{Outcome: terraform.OutcomeBlocked, Plan: aPlan, Blocked: []string{"aws_vpc.new"}})
	c.reconcile()
	c.expect(infrav1.AppliedCondition, "False ProtectedResource")
	c.request(newDecision("a", planID, infrav1.DecisionApprove, func(a *infrav1.WorkspaceApproval) { a.Spec.AllowDestroy = []string{"aws_vpc.new"} }))
	c.reconcile()
	c.Expect(c.given[1].Unprotected).To(Equal([]string{"aws_vpc.new"}))
	c.finish("hello-r2", success)
	c.reconcile()
	c.changeInputs()
	c.reconcile()
	c.Expect(c.given).To(HaveLen(3))
	c.Expect(c.given[2].Unprotected).To(BeEmpty(), "what was allowed for another plan")
}

func TestOneShotOperation_waitsForApproval(t *testing.T) {
	replace := infrav1.RunOptions{Replace: []infrav1.AddressString{"aws_vpc.a"}}
	for name, tt := range map[string]struct {
		decision infrav1.ApprovalDecision
		started  int
		phase    infrav1.OperationPhase
	}{
		"approved": {infrav1.DecisionApprove, 3, infrav1.OperationSucceeded},
		"rejected": {infrav1.DecisionReject, 2, infrav1.OperationCanceled},
	} {
		t.Run(name, func(t *testing.T) {
			c := appliedController(t)
			c.request(held(newRunOperation("replace", replace)))
			c.reconcile()
			c.Expect(c.given[1].OneShot.Replace).To(Equal([]string{"aws_vpc.a"}))
			c.finish("hello-r2", terraform.Result{Outcome: terraform.OutcomePlanned, Plan: aPlan})
			c.reconcile()
			c.expectPhase("replace", infrav1.OperationWaitingForApproval)
			c.Expect(c.get().Status.Plan.Request.RequestedBy).To(Equal("eve"))
			c.request(newDecision("a", planID, tt.decision))
			c.reconcile()
			c.Expect(c.started).To(HaveLen(tt.started))
			if tt.decision == infrav1.DecisionApprove {
				c.finish("hello-r3", success)
			}
			c.reconcile()
			c.reconcile()
			c.expectPhase("replace", tt.phase)
			c.Expect(c.started).To(HaveLen(tt.started))
		})
	}
}

func TestOneShotOperation_isRefused(t *testing.T) {
	c := appliedController(t)
	c.changeInputs()
	c.request(newRunOperation("refresh", infrav1.RunOptions{RefreshOnly: true}))
	c.reconcile()
	c.Expect(c.expectPhase("refresh", infrav1.OperationFailed)).To(ContainSubstring("The inputs are not applied"))
}

func TestOperation_ofAnotherWorkspaceIsNotExecuted(t *testing.T) {
	c := appliedController(t)
	o := newRunOperation("old")
	o.Spec.WorkspaceUID = "earlier"
	c.request(o)
	c.reconcile()
	c.expectPhase("old", infrav1.OperationCanceled)
	c.Expect(c.started).To(HaveLen(1))
}

func TestDriftOperation_checksOnce(t *testing.T) {
	c := appliedController(t)
	c.request(newOperation("check", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationCheckDrift}))
	c.reconcile()
	c.Expect(c.given[1].Operation).To(Equal(terraform.OperationCheckDrift))
	c.finish("hello-r2", terraform.Result{Outcome: terraform.OutcomeSucceeded})
	c.reconcile()
	c.expectPhase("check", infrav1.OperationSucceeded)
	c.reconcile()
	c.Expect(c.started).To(HaveLen(2))
}

func TestStateOperation_isExecutedOnce(t *testing.T) {
	c := appliedController(t)
	c.request(newStateOperation(infrav1.StateOptions{Command: "rm", Args: []infrav1.AddressString{"a.b"}}))
	c.reconcile()
	c.Expect(c.given[1].StateCommand).To(HaveField("Args", []string{"a.b"}))
	c.finish("hello-r2", terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal})
	c.reconcile()
	c.expectPhase("command", infrav1.OperationFailed)
	c.reconcile()
	c.Expect(c.started).To(HaveLen(2))
}

func TestOperation_holdsTheNextPlan(t *testing.T) {
	for name, tt := range map[string]struct {
		spec      infrav1.WorkspaceOperationSpec
		operation terraform.Operation
	}{
		"restore": {infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRestore, Hold: true, Restore: &infrav1.RestoreOptions{Snapshot: "capt-hello-r1-0"}}, terraform.OperationRestoreState},
		"rm":      {infrav1.WorkspaceOperationSpec{Type: infrav1.OperationState, Hold: true, State: &infrav1.StateOptions{Command: "rm", Args: []infrav1.AddressString{"a.b"}}}, terraform.OperationStateCommand},
	} {
		t.Run(name, func(t *testing.T) {
			c := appliedController(t)
			c.request(newOperation("change", tt.spec))
			c.reconcile()
			c.Expect(c.given[1].Operation).To(Equal(tt.operation))
			c.finish("hello-r2", success)
			c.reconcile()
			c.expectPhase("change", infrav1.OperationSucceeded)
			c.Expect(c.get().Status.HeldBy).To(Equal("change"))
			c.Expect(c.get().Status.StateChangedBy).To(Equal("eve"))
			c.Expect(c.get().Spec.Approval).To(BeEmpty())
			c.Expect(c.given[2].Operation).To(Equal(terraform.OperationPlan))
			c.finish("hello-r3", terraform.Result{Outcome: terraform.OutcomePlanned, Plan: aPlan})
			c.reconcile()
			c.expect(infrav1.AppliedCondition, "False WaitingForApproval")
			c.request(newDecision("a", planID, infrav1.DecisionApprove))
			c.reconcile()
			c.finish("hello-r4", success)
			c.reconcile()
			c.Expect(c.get().Status).To(And(HaveField("HeldBy", BeEmpty()), HaveField("StateChangedBy", BeEmpty())))
			c.request(newOperation("again", tt.spec))
			c.reconcile()
			c.Expect(c.given[4].Operation).To(Equal(tt.operation), "the same request once more")
		})
	}
}

// A taint may be all that is wrong with a resource whose creation was interrupted.
func TestInterruption_holdsThePlanThatDestroysWhatItLeft(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.Expect(c.given[0].HoldTainted).To(BeFalse())
	c.finish("hello-r1", terraform.Result{Outcome: terraform.OutcomeTimedOut, Phases: []terraform.PhaseTime{{Name: terraform.PhaseApplying}}})
	c.reconcile()
	c.Expect(c.get().Status.InterruptedBy).To(Equal("hello-r1"))
	c.request(newOperation("again", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRun}))
	c.reconcile()
	c.Expect(c.given[1].Operation).To(Equal(terraform.OperationPlanAndApply))
	c.Expect(c.given[1].HoldTainted).To(BeTrue())
	// A failure meanwhile does not make it forget.
	c.finish("hello-r2", terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal})
	c.reconcile()
	c.request(newOperation("and-again", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRun}))
	c.reconcile()
	c.Expect(c.given[2].HoldTainted).To(BeTrue())
	c.finish("hello-r3", terraform.Result{Outcome: terraform.OutcomePlanned, Plan: aPlan})
	c.reconcile()
	c.Expect(c.expect(infrav1.AppliedCondition, "False WaitingForApproval")).To(ContainSubstring("An earlier run was interrupted"))
	c.Expect(c.started).To(HaveLen(3))
	c.request(newDecision("a", planID, infrav1.DecisionApprove))
	c.reconcile()
	c.Expect(c.given[3].Operation).To(Equal(terraform.OperationApply))
	c.finish("hello-r4", success)
	c.reconcile()
	c.Expect(c.get().Status.HeldBy).To(BeEmpty())
	c.Expect(c.get().Status.InterruptedBy).To(BeEmpty())
}

// Nothing tells how a run ended whose record was deleted. It may have been interrupted.
func TestInterruption_isAssumedOfARunWithoutARecord(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.Expect(c.server.Delete(t.Context(), c.runSecret("hello-r1"))).To(Succeed())
	c.reconcile()
	c.Expect(c.given[1].HoldTainted).To(BeTrue())
	// This run reports its state, and the next one still has to know.
	c.finish("hello-r2", terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal, State: terraform.StateInfo{Lineage: "l", Serial: 1}})
	c.reconcile()
	c.request(newOperation("again", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRun}))
	c.reconcile()
	c.Expect(c.given[2].HoldTainted).To(BeTrue())
	c.finish("hello-r3", terraform.Result{Outcome: terraform.OutcomePlanned, Plan: aPlan, State: terraform.StateInfo{Lineage: "l", Serial: 1}})
	c.reconcile()
	c.Expect(c.expect(infrav1.AppliedCondition, "False WaitingForApproval")).To(ContainSubstring("An earlier run was interrupted"))
	c.request(newDecision("a", planID, infrav1.DecisionApprove))
	c.reconcile()
	c.finish("hello-r4", success)
	c.reconcile()
	c.Expect(c.get().Status.InterruptedBy).To(BeEmpty())
	c.Expect(c.get().Status.HeldBy).To(BeEmpty())
}

// A run with options is interrupted like any other, and may not destroy what others left tainted
// either.
func TestInterruption_ofAOneShotOperation(t *testing.T) {
	c := appliedController(t)
	c.request(newOperation("part", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRun, Run: &targeting}))
	c.reconcile()
	c.Expect(c.given[1].OneShot).NotTo(BeNil())
	c.Expect(c.given[1].HoldTainted).To(BeFalse())
	c.finish("hello-r2", terraform.Result{Outcome: terraform.OutcomeTimedOut, Phases: []terraform.PhaseTime{{Name: terraform.PhaseApplying}}})
	c.reconcile()
	c.Expect(c.get().Status.InterruptedBy).To(Equal("hello-r2"))
	c.Expect(c.given[2].OneShot).To(BeNil())
	c.Expect(c.given[2].HoldTainted).To(BeTrue())
	c.finish("hello-r3", terraform.Result{Outcome: terraform.OutcomePlanned, Plan: aPlan})
	c.reconcile()
	c.expect(infrav1.AppliedCondition, "False WaitingForApproval")
	c.request(newOperation("replace", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRun, Run: &replacing}))
	c.reconcile()
	c.Expect(c.given[3].OneShot).NotTo(BeNil())
	c.finish("hello-r4", success)
	c.reconcile()
	c.Expect(c.get().Status.InterruptedBy).To(BeEmpty(), "all inputs are applied")
	c.Expect(c.get().Status.HeldBy).To(BeEmpty())
}

// Retained resources outlive the workspace, and what knows that they were interrupted.
func TestReconcile_completesTheApplyOfRetainedResources(t *testing.T) {
	c := newTestController(t, append(values(), newApply(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.RetainWorkspaceOnDelete = true }))...)
	c.reconcile()
	c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
	c.reconcile()
	c.Expect(c.stopped).To(ConsistOf("hello-r1"))
	c.Expect(c.interrupted).To(BeEmpty())
	c.Expect(c.expect(infrav1.DestroyedCondition, "False RunInProgress")).To(ContainSubstring("completed first"))
	c.request(newCancelOperation("hello-r1"))
	c.reconcile()
	c.Expect(c.interrupted).To(ConsistOf("hello-r1"))
}

// A restore that fails is not given up silently: a run of the inputs could destroy what the
// snapshot has.
func TestRestoreOperation_staysUntilItIsDeleted(t *testing.T) {
	c := appliedController(t)
	c.request(newRestoreOperation("back", "gone"))
	c.reconcile()
	c.finish("hello-r2", terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal, SnapshotMissing: true})
	c.reconcile()
	c.Expect(c.expectPhase("back", infrav1.OperationPending)).To(ContainSubstring("To go on without it, delete this operation"))
	c.Expect(c.started).To(HaveLen(2))
	c.Expect(c.server.Delete(t.Context(), c.requested("back"))).To(Succeed())
	c.reconcile()
	c.expect(infrav1.AppliedCondition, "True Applied")
}

func TestUnlockOperation_endsALostRun(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	c.liveness = terraform.LivenessUnknown
	c.reconcile()
	c.expect(infrav1.AppliedCondition, "False LockHeld")
	c.request(newUnlockOperation("hello-r1"))
	c.reconcile()
	c.liveness = terraform.LivenessRunning
	c.reconcile()
	c.Expect(c.given[1].BreakLock).To(Equal("hello-r1"))
	c.finish("hello-r2", success)
	c.reconcile()
	c.expectPhase("unlock", infrav1.OperationSucceeded)
}

func TestAdoptOperation_endsWithARunThatUsedTheState(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	foreign := terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal, StateProblem: terraform.StateForeign}
	c.finish("hello-r1", foreign)
	c.reconcile()
	c.expect(infrav1.AppliedCondition, "False StateForeign")
	c.request(newAdoptOperation(infrav1.AdoptOptions{State: "lineage/3"}))
	c.reconcile()
	c.Expect(c.given[1].State.Adopt).To(Equal("lineage/3"))
	c.finish("hello-r2", terraform.Result{Outcome: terraform.OutcomeInterrupted, Class: terraform.ClassTransient})
	c.reconcile()
	c.Expect(c.given[2].State.Adopt).To(Equal("lineage/3"))
	c.finish("hello-r3", success)
	c.reconcile()
	c.expectPhase("adopt", infrav1.OperationSucceeded)
	c.request(newRunOperation("again"))
	c.reconcile()
	c.Expect(c.given[3].State.Adopt).To(BeEmpty())
}

func TestShellOperation_isOpenUntilItIsDeleted(t *testing.T) {
	c := appliedController(t)
	shell := newShellOperation("shell-1")
	c.request(shell)
	c.request(newRunOperation("again"))
	c.reconcile()
	c.expectPhase("shell-1", infrav1.OperationRunning)
	c.Expect(c.get().Status.Shell).To(HaveField("By", "eve"))
	c.Expect(c.started).To(HaveLen(1))
	c.Expect(c.server.Delete(t.Context(), c.requested("shell-1"))).To(Succeed())
	c.reconcile()
	c.Expect(c.get().Status.Shell.ClosedAt).NotTo(BeNil())
	c.Expect(c.started).To(HaveLen(2))
}

func TestOperation_isDeletedAWeekAfterItEnded(t *testing.T) {
	c := appliedController(t)
	o := newRunOperation("old")
	o.Status = infrav1.WorkspaceOperationStatus{Phase: infrav1.OperationSucceeded, FinishedAt: new(metav1.NewTime(noon.Add(-6 * 24 * time.Hour)))}
	foreign := newRunOperation("foreign")
	foreign.Spec.WorkspaceUID, foreign.Status = "earlier", o.Status
	c.request(o)
	c.request(foreign)
	c.Expect(c.reconcile().RequeueAfter).To(BeNumerically("<=", 24*time.Hour))
	c.requested("old")
	c.requested("foreign")
	c.reconciler.Now = func() time.Time { return noon.Add(25 * time.Hour) }
	c.reconcile()
	for _, o := range []*infrav1.WorkspaceOperation{o, foreign} {
		c.Expect(apierrors.IsNotFound(c.server.Get(t.Context(), client.ObjectKeyFromObject(o), o))).To(BeTrue(), o.Name)
	}
}

// The cache still has what a user has withdrawn.
func TestEnsureRequested_readsTheAPIServer(t *testing.T) {
	c := appliedController(t)
	kept, withdrawn := newRunOperation("kept"), newRunOperation("withdrawn")
	approval := newDecision("a", planID, infrav1.DecisionApprove)
	c.request(kept.DeepCopy())
	c.request(approval.DeepCopy())
	s := &runs.Workspace{Apply: c.get(), Now: noon}
	s.Apply.Status.Plan.Waiting = new(true)
	c.Expect(c.reconciler.store.ReadRequests(t.Context(), s)).To(Succeed())
	ensure := func(o *infrav1.WorkspaceOperation) error {
		return c.reconciler.store.EnsureRequested(t.Context(), s, []*infrav1.WorkspaceOperation{o})
	}
	c.Expect(ensure(kept)).To(Succeed())
	c.Expect(ensure(withdrawn)).To(MatchError(ContainSubstring("the cache is stale")))
	c.request(newDecision("b", planID, infrav1.DecisionReject))
	c.Expect(ensure(kept)).To(MatchError(ContainSubstring("the cache is stale")))
}

// Neither starts a run of the inputs, or the one before it again.
func TestMoveOperation_toAnotherConfigStartsNothing(t *testing.T) {
	c := appliedController(t)
	c.request(newOperation("move", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationMove, Move: &infrav1.MoveOptions{From: "aws", To: "there"}}))
	c.reconcile()
	c.reconcile()
	c.Expect(c.started).To(HaveLen(1))
	c.expectPhase("move", infrav1.OperationPending)
}

func TestRestoreOperation_followsOneThatFailed(t *testing.T) {
	c := appliedController(t)
	restore := func(name string) *infrav1.WorkspaceOperation {
		return newOperation(name, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationRestore, Restore: &infrav1.RestoreOptions{Snapshot: "capt-" + name}})
	}
	c.request(restore("a"))
	c.reconcile()
	c.finish("hello-r2", terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal, SnapshotMissing: true})
	c.reconcile()
	later := restore("b")
	later.CreationTimestamp = metav1.NewTime(noon.Add(time.Second))
	c.request(later)
	c.reconcile()
	c.expectPhase("a", infrav1.OperationCanceled)
	c.Expect(c.given).To(HaveLen(3))
	c.Expect(c.runSecret("hello-r3").Annotations).To(HaveKeyWithValue(record.OperationsAnnotation, "uid-b"))
	c.finish("hello-r3", success)
	c.reconcile()
	c.expectPhase("b", infrav1.OperationSucceeded)
	c.Expect(c.given[3].Operation).To(Equal(terraform.OperationPlanAndApply), "the one that failed is not repeated")
}

// The pod of the run does not exist yet.
func TestCancelOperation_ofARunThatHasNotStarted(t *testing.T) {
	c := appliedController(t)
	c.startError = errRefused
	c.request(newRunOperation("replace", infrav1.RunOptions{Replace: []infrav1.AddressString{"aws_vpc.a"}}))
	_, err := c.frame.Reconcile(t.Context(), ctrl.Request{NamespacedName: key("hello")})
	c.Expect(err).To(MatchError(errRefused))
	c.request(newOperation("stop", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationCancel, Cancel: &infrav1.CancelOptions{Run: "hello-r2"}}))
	c.startError = nil
	for range 4 {
		c.reconcile()
	}
	c.expectPhase("replace", infrav1.OperationCanceled)
	c.expectPhase("stop", infrav1.OperationSucceeded)
	c.Expect(c.started).To(Equal([]string{"hello-r1"}))
}

func TestCancelOperation_stopsNoLaterRun(t *testing.T) {
	c := appliedController(t)
	c.request(newOperation("early", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationCancel, Cancel: &infrav1.CancelOptions{Run: "hello-r2"}}))
	c.reconcile()
	c.expectPhase("early", infrav1.OperationFailed)
	c.request(newRunOperation("again"))
	c.reconcile()
	c.reconcile()
	c.Expect(c.started).To(Equal([]string{"hello-r1", "hello-r2"}))
	c.Expect(c.stopped).To(BeEmpty())
}

// A workspace runs for one of another namespace, and users of both decide.
func TestDecision_aRejectionOfEitherNamespaceCounts(t *testing.T) {
	g := NewWithT(t)
	guest := newDecision("later", planID, infrav1.DecisionApprove, func(a *infrav1.WorkspaceApproval) { a.Namespace = "guest" })
	q := runs.Requests{Approvals: []*infrav1.WorkspaceApproval{guest, newDecision("earlier", planID, infrav1.DecisionReject)}}
	g.Expect(q.Decision(planID).Spec.Decision).To(Equal(infrav1.DecisionReject))
}
