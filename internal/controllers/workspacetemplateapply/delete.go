package workspacetemplateapply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// destroyInputs replaces the hash of the inputs in runs that destroy, because all
// inputs destroy the same resources.
const destroyInputs = "destroy"

// destroy destroys the resources of the workspace unless they are retained. It
// stops a running run first.
func (r *Reconciler) destroy(ctx context.Context, s *scope) error {
	if err := waitForOwner(ctx, r.Reader, s.apply); err != nil {
		return err
	}
	if run := s.current(); run != nil {
		return r.execution.attend(ctx, s, run)
	}
	// A run that is missing from the cache may be creating resources, and so may a user.
	if err := r.numbers.ensureRunsCurrent(ctx, s.workspace); err != nil {
		return err
	}
	if err := shellFault(s.apply); err != nil {
		return err
	}
	if s.apply.Spec.RetainWorkspaceOnDelete {
		return r.settle(ctx, s)
	}
	empty, err := r.nothingLeft(ctx, s.workspace)
	if err != nil {
		return err
	}
	frees := false
	if empty {
		if frees = leavesState(s.workspace); !frees {
			return nil
		}
	}
	// Destroying requires the module that created the resources.
	if err := r.prepareDestroy(ctx, s); err != nil {
		if frees && fault.Is(err) {
			// Nothing has to be destroyed, so the deletion does not wait for a user.
			return nil
		}
		return err
	}
	situation := s.situation()
	if frees {
		// There is nothing to approve, and nothing about which a policy decides.
		situation.policy.DestroyApproval, situation.plan, s.policies = infrav1.ApprovalAuto, nil, nil
	}
	next, err := decideDestroy(situation)
	if _, stalled := fault.AsStalled(err); frees && stalled {
		return nil
	}
	if err != nil {
		return err
	}
	return r.execution.start(ctx, s, next)
}

// prepareDestroy resolves the inputs of a run of a workspace that is being deleted.
func (r *Reconciler) prepareDestroy(ctx context.Context, s *scope) error {
	if err := r.resolver.dependencies(ctx, s.resolved); err != nil {
		return err
	}
	if err := r.resolver.inputs(s.resolved); err != nil {
		return err
	}
	if err := s.keptModule(); err != nil {
		return err
	}
	return r.resolver.resolveMove(ctx, s.resolved)
}

// settle saves the state that a run left in its working directory, before the
// workspace and its resources are left to the user. A pod has saved its state.
func (r *Reconciler) settle(ctx context.Context, s *scope) error {
	s.inputs = &template.Inputs{Policy: s.policy, Request: terraform.Request{
		Workspace: s.workspaceRef(),
		Backend:   s.kubernetesBackend(), Grace: settleGrace, Timeout: settleTimeout,
	}}
	left, err := r.mayHaveLeft(ctx, s.workspace)
	if err != nil || !left || r.execution.executor(s) != infrav1.ExecutorProcess {
		return err
	}
	if !usesKubernetes(s.apply.Status.State, s.runs) {
		if lost := s.lostRun(); lost != nil {
			s.inputs.Request.Backend = terraform.Backend{Type: lost.secret.Annotations[record.BackendAnnotation]}
		}
		if state := s.apply.Status.State; state != nil && state.Backend != "" {
			// The lost run may have moved the state.
			s.inputs.Request.Backend.Type = state.Backend
		}
	}
	next := decision{operation: terraform.OperationSaveState}
	if !s.situation().requested() {
		if next, err = s.situation().attempt(next, settleInputs); err != nil {
			return err
		}
	}
	return r.execution.start(ctx, s, next)
}

// mayHaveLeft reports whether a run may have left a state in its working directory. The
// record of that run may have been deleted: then its lock is held, or the state that it
// may have changed is not confirmed.
func (r *Reconciler) mayHaveLeft(ctx context.Context, s *workspace) (bool, error) {
	results := s.results()
	if len(results) > 0 && results[0] != nil && results[0].Operation == terraform.OperationSaveState && results[0].Outcome == terraform.OutcomeSucceeded {
		return false, nil
	}
	if state := s.apply.Status.State; state != nil && state.Confirmation == infrav1.StateUnconfirmed {
		return true, nil
	}
	return r.store.unsettled(ctx, s, results)
}

// settleInputs replaces the hash of the inputs in a run that saves a state.
const settleInputs = "save"

const (
	// settleGrace is how long the tool of a lost run has to end.
	settleGrace   = 10 * time.Minute
	settleTimeout = time.Hour
)

// decideDestroy returns the destroy run, or a fault that explains why it does not
// start. A request of the user overrides failures. What the user requested for the
// state comes first: it may be missing, outdated or unreadable.
func decideDestroy(s situation) (decision, error) {
	if next, err := s.decideBackend(); err != nil || next != noRun {
		return next, err
	}
	next, err := s.decideStateChange()
	if stalled, ok := fault.AsStalled(err); ok {
		return noRun, fault.Stall(stalled.Reason, "%s. To destroy without restoring %s, remove the annotation %s", strings.TrimSuffix(stalled.Message(), "."), s.restore, infrav1.RestoreSnapshotAnnotation)
	}
	if err != nil || next != noRun {
		return next, err
	}
	if decided := isDestroyPlan(s.plan) && (s.plan.PolicyDigest == s.policies || s.rejectedPlan == s.plan.ID); decided && !s.requested() {
		switch s.plan.PolicyAction {
		case infrav1.PolicyDeny:
			return noRun, deniedFault(s.plan, "Deletion is held", s.keepHint())
		case infrav1.PolicyRequireApproval:
			return s.decideManualDestroy()
		}
	}
	if s.policy.DestroyApproval == infrav1.ApprovalManual {
		return s.decideManualDestroy()
	}
	destroy := decision{operation: terraform.OperationDestroy}
	if s.requested() {
		return destroy, nil
	}
	return s.attempt(destroy, destroyInputs)
}

// decideManualDestroy decides for destroyApproval: Manual, from the plan to approval to
// the destruction.
func (s situation) decideManualDestroy() (decision, error) {
	plan := decision{operation: terraform.OperationPlanDestroy}
	switch {
	case s.requested():
		return plan, nil
	case !isDestroyPlan(s.plan), s.plan.PolicyDigest != s.policies && s.rejectedPlan != s.plan.ID:
		return s.attempt(plan, destroyInputs)
	case s.rejectedPlan == s.plan.ID:
		return noRun, fault.Stall(infrav1.PlanRejectedReason, "Deletion is held: plan %s was rejected%s. Request another plan with captctl retry%s", s.plan.ID, quoted(s.plan.Comment), s.keepHint())
	}
	if blocked := s.blocked(); len(blocked) > 0 {
		return noRun, fault.Stall(infrav1.ProtectedResourceReason, "Deletion is held: plan %s would destroy protected resources, or does not find them: %s. Allow it with captctl approve --allow-destroy, or list them in the annotation %s%s%s",
			s.plan.ID, strings.Join(blocked, ", "), infrav1.AllowDestroyAnnotation, s.keepHint(), s.former.protect)
	}
	if s.approvedPlan != s.plan.ID {
		return noRun, fault.Wait(infrav1.WaitingForApprovalReason, "Deletion waits: plan %s would destroy %d resources. Approve it with captctl approve, or set spec.approvedPlan to %s%s%s%s",
			s.plan.ID, s.plan.Destroy, s.plan.ID, s.keepHint(), approvalCause(s.plan), s.former.destroyApproval)
	}
	return s.attempt(decision{operation: terraform.OperationApplyDestroy, plan: s.plan.ID}, destroyInputs)
}

// keepHint returns how a user keeps the resources. The owner of a workspace decides that
// in another field.
func (s situation) keepHint() string {
	if s.isOwned {
		return ""
	}
	return ". To keep the resources, set retainWorkspaceOnDelete: true"
}

// isDestroyPlan reports whether a plan of a deletion waits for a decision.
func isDestroyPlan(plan *infrav1.PlanStatus) bool {
	return plan != nil && plan.Inputs == destroyInputs && isWaiting(plan)
}

// destroyApproved reports whether the plan of the deletion that waits is approved.
func (s *scope) destroyApproved() bool {
	plan := s.apply.Status.Plan
	return isDestroyPlan(plan) && s.apply.Spec.ApprovedPlan == plan.ID && s.apply.Annotations[infrav1.RejectPlanAnnotation] != plan.ID
}

// wasEmpty reports whether the state was known to be empty before a run. A run of a
// deletion then needs no approval: it only marks the state as free.
func (s *workspace) wasEmpty(run *runRecord) bool {
	state, readable := s.previousState(run)
	return readable && (state == nil || state.Resources == 0 && state.Confirmation != infrav1.StateUnconfirmed)
}

// isDestroyed reports whether a run destroyed all resources; its arguments may exclude
// some. The result is nil if the run has not ended.
func isDestroyed(result *terraform.Result) bool {
	return result != nil && result.Operation.Destroys() && result.State.Resources == 0 &&
		(result.Outcome == terraform.OutcomeSucceeded || result.Outcome == terraform.OutcomeNoChanges)
}

// unsettled reports whether resources may exist that are missing from the state.
// The holder of the lock is running, or was killed before Terraform saved the
// state. The state that Terraform could not save is in the working directory
// until a later run pushes it.
func (r *store) unsettled(ctx context.Context, s *workspace, results []*terraform.Result) (bool, error) {
	var lease coordinationv1.Lease
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.apply.Namespace, Name: s.kubernetesBackend().LeaseName()}, &lease)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the lock: %w", err)
	}
	return err == nil && isHeld(&lease) || lastRunUnsettled(results), nil
}

// isHeld reports whether a lock has a holder.
func isHeld(lease *coordinationv1.Lease) bool {
	return lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
}

// lastRunUnsettled reports whether the newest conclusive run left resources that
// may be missing from the state. The results are those of all runs, the newest
// first, with nil for a run that has not ended. Runs that failed are not
// conclusive: they may have ended before they read the state.
func lastRunUnsettled(results []*terraform.Result) bool {
	for _, result := range results {
		switch {
		case result == nil || result.Outcome == outcomeLost && mayHaveChanged(result):
			return true
		case slices.Contains(settledOutcomes, result.Outcome):
			return false
		}
	}
	return false
}

// settledOutcomes are the outcomes of runs that ended with a complete state.
var settledOutcomes = []terraform.Outcome{terraform.OutcomeSucceeded, terraform.OutcomeNoChanges, terraform.OutcomePlanned, terraform.OutcomeBlocked, terraform.OutcomeDenied}

// kubernetesBackend returns the Kubernetes backend of the workspace.
func (s *workspace) kubernetesBackend() terraform.Backend {
	return terraform.Backend{Type: terraform.BackendKubernetes, Namespace: s.apply.Namespace, SecretSuffix: template.StateSuffix(s.apply.Name)}
}

func destroyedMessage(s *scope) string {
	if !s.apply.Spec.RetainWorkspaceOnDelete {
		return ""
	}
	parts := []string{"Resources are retained"}
	switch state := s.apply.Status.State; {
	case state == nil:
	case state.SecretName != "":
		parts = append(parts, "state in Secret "+state.SecretName)
	case state.Backend != "":
		parts = append(parts, "state in backend "+state.Backend)
	}
	if name := s.apply.Status.ConnectionSecretName; name != "" {
		parts = append(parts, "outputs in Secret "+name)
	}
	if run := s.lockingRun(); run != nil && !usesKubernetes(s.apply.Status.State, s.runs) {
		parts = append(parts, "run "+run.id+" may have left the state locked")
	}
	return strings.Join(parts, ", ")
}
