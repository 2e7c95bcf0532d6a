package workspacetemplateapply

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/cleanup"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// destroy destroys the resources of the workspace unless they are retained. It
// stops a running run first.
func (r *Reconciler) destroy(ctx context.Context, s *execution.Scope) error {
	if err := cleanup.WaitForOwner(ctx, r.Reader, s.Apply); err != nil {
		return err
	}
	if run := s.Current(); run != nil {
		return r.execution.Attend(ctx, s, run)
	}
	// A run that is missing from the cache may be creating resources, and so may a user.
	if err := r.numbers.EnsureRunsCurrent(ctx, s.Workspace); err != nil {
		return err
	}
	if err := history.ShellFault(s.Apply); err != nil {
		return err
	}
	if s.Apply.Spec.RetainWorkspaceOnDelete {
		return r.settle(ctx, s)
	}
	empty, err := r.nothingLeft(ctx, s.Workspace)
	if err != nil || empty && s.Terminating {
		return err
	}
	if s.Terminating {
		return terminatingFault(s.Workspace)
	}
	frees := false
	if empty {
		if frees = leavesState(s.Workspace); !frees {
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
	situation := s.Situation()
	if frees {
		// There is nothing to approve, and nothing about which a policy decides.
		situation.Policy.DestroyApproval, situation.Plan, s.Policies = infrav1.ApprovalAuto, nil, nil
	}
	next, err := decision.NextDestroy(situation)
	if _, stalled := fault.AsStalled(err); frees && stalled {
		return nil
	}
	if err != nil {
		return err
	}
	return r.execution.Start(ctx, s, next)
}

// prepareDestroy resolves the inputs of a run of a workspace that is being deleted.
func (r *Reconciler) prepareDestroy(ctx context.Context, s *execution.Scope) error {
	if err := r.resolver.Dependencies(ctx, s.Resolved); err != nil {
		return err
	}
	if err := r.resolver.Inputs(s.Resolved); err != nil {
		return err
	}
	if err := s.KeptModule(); err != nil {
		return err
	}
	return r.resolver.ResolveMove(ctx, s.Resolved)
}

// settle saves the state that a run left in its working directory, before the
// workspace and its resources are left to the user. A pod has saved its state.
func (r *Reconciler) settle(ctx context.Context, s *execution.Scope) error {
	if s.Terminating {
		return nil
	}
	s.Inputs = &template.Inputs{Policy: s.Policy, Request: terraform.Request{
		Workspace: s.Ref(),
		Backend:   s.KubernetesBackend(), Grace: settleGrace, Timeout: settleTimeout,
	}}
	left, err := r.mayHaveLeft(ctx, s.Workspace)
	if err != nil || !left || r.execution.Executor(s) != infrav1.ExecutorProcess {
		return err
	}
	if !runs.UsesKubernetes(s.Apply.Status.State, s.Runs) {
		if lost := s.LostRun(); lost != nil {
			s.Inputs.Request.Backend = terraform.Backend{Type: lost.Secret.Annotations[record.BackendAnnotation]}
		}
		if state := s.Apply.Status.State; state != nil && state.Backend != "" {
			// The lost run may have moved the state.
			s.Inputs.Request.Backend.Type = state.Backend
		}
	}
	next := decision.Decision{Operation: terraform.OperationSaveState}
	if !s.Situation().Requested {
		if next, err = s.Situation().Attempt(next, runs.SettleInputs); err != nil {
			return err
		}
	}
	return r.execution.Start(ctx, s, next)
}

// mayHaveLeft reports whether a run may have left a state in its working directory. The
// record of that run may have been deleted: then its lock is held, or the state that it
// may have changed is not confirmed.
func (r *Reconciler) mayHaveLeft(ctx context.Context, s *runs.Workspace) (bool, error) {
	results := s.Results()
	if len(results) > 0 && results[0] != nil && results[0].Operation == terraform.OperationSaveState && results[0].Outcome == terraform.OutcomeSucceeded {
		return false, nil
	}
	if state := s.Apply.Status.State; state != nil && state.Confirmation == infrav1.StateUnconfirmed {
		return true, nil
	}
	return r.store.Unsettled(ctx, s, results)
}

const (
	// settleGrace is how long the tool of a lost run has to end.
	settleGrace   = 10 * time.Minute
	settleTimeout = time.Hour
)

func destroyedMessage(s *execution.Scope) string {
	if !s.Apply.Spec.RetainWorkspaceOnDelete {
		return ""
	}
	parts := []string{"Resources are retained"}
	switch state := s.Apply.Status.State; {
	case state == nil:
	case state.SecretName != "":
		parts = append(parts, "state in Secret "+state.SecretName)
	case state.Backend != "":
		parts = append(parts, "state in backend "+state.Backend)
	}
	if name := s.Apply.Status.ConnectionSecretName; name != "" {
		parts = append(parts, "outputs in Secret "+name)
	}
	if run := s.LockingRun(); run != nil && !runs.UsesKubernetes(s.Apply.Status.State, s.Runs) {
		parts = append(parts, "run "+run.ID+" may have left the state locked")
	}
	return strings.Join(parts, ", ")
}

// nothingLeft reports whether there is nothing to destroy: no run ever started,
// the last run destroyed everything, or the state is empty.
func (r *Reconciler) nothingLeft(ctx context.Context, s *runs.Workspace) (bool, error) {
	results := s.Results()
	switch {
	case len(results) > 0 && runs.IsDestroyed(results[0]) && !results[0].LockLeft:
		return true, nil
	case s.ExpectsState():
		return false, nil
	case len(results) > 0 && results[0] != nil && needsState(s, results[0].StateProblem):
		return false, nil
	case runs.LeftLock(results):
		// Only a run can break the lock, which would stop the next workspace.
		return false, nil
	}
	if unsettled, err := r.store.Unsettled(ctx, s, results); err != nil || unsettled {
		return false, err
	}
	// A state that could not be saved may have resources.
	if rescued, err := r.store.RescuedStates(ctx, s); err != nil || len(rescued) > 0 && len(s.Runs) > 0 {
		return false, err
	}
	if !runs.UsesKubernetes(s.Apply.Status.State, s.Runs) {
		// Only a run can read the state.
		return !runs.InUse(s.Apply.Status.State), nil
	}
	// The state decides, whichever run wrote it.
	var secret corev1.Secret
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.Apply.Namespace, Name: s.KubernetesBackend().StateSecretName()}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return !runs.InUse(s.Apply.Status.State), nil
	case err != nil:
		return false, fmt.Errorf("reading the state: %w", err)
	}
	empty, version, err := record.StateIsEmpty(&secret)
	if err != nil {
		// A run reports that the state cannot be read, and the user may restore it.
		return false, nil //nolint:nilerr // An unreadable state is not empty.
	}
	if !empty || !runs.InUse(s.Apply.Status.State) {
		return empty, nil
	}
	if !isSuccessor(version, s.Apply.Status.State) {
		return false, nil
	}
	// Nothing but the status shows this after the state is deleted.
	s.Apply.Status.State.Resources, s.Apply.Status.State.Confirmation = 0, infrav1.StateConfirmed
	s.StatusChanged = true
	return true, nil
}

// terminatingFault waits for a user: no run can destroy the resources any more. The finalizer
// of the state keeps it, and with it the namespace.
func terminatingFault(s *runs.Workspace) error {
	apply, state := s.Apply, "state in Secret "+s.KubernetesBackend().StateSecretName()
	if !runs.UsesKubernetes(apply.Status.State, s.Runs) {
		state = "state in another backend"
	}
	return fault.Wait(infrav1.NamespaceTerminatingReason, "Namespace %s is being deleted, so that no run can start in it to destroy the resources (%s). "+
		"Copy the state to another namespace and destroy them there, then, or to abandon them, release this one: "+
		`kubectl patch wsta %s --namespace %s --type merge --patch '{"spec":{"retainWorkspaceOnDelete":true}}'`, apply.Namespace, state, apply.Name, apply.Namespace)
}

// leavesState reports whether the workspace may leave an empty state of its own in
// another backend than the default one. A destroy run marks it as free: otherwise the
// next workspace of the same name would have to adopt it. It is tried a few times.
func leavesState(s *runs.Workspace) bool {
	state, failure := s.Apply.Status.State, s.Apply.Status.Failure
	// A lost run, also one that only planned, may have created the state.
	known := state != nil && state.Lineage != ""
	if !known && len(s.LostRuns()) == 0 || runs.UsesKubernetes(state, s.Runs) {
		return false
	}
	if results := s.Results(); len(results) > 0 && runs.IsDestroyed(results[0]) && !results[0].LockLeft {
		return false
	}
	return failure == nil || failure.Inputs != runs.DestroyInputs || failure.Attempts < freeAttempts
}

// freeAttempts is how often a deletion tries to mark an empty state as free.
const freeAttempts = 3

// needsState reports whether a problem with the state must be solved before the
// workspace is deleted: its own state is missing or outdated. The state of another
// workspace stays as it is if this one never had a state of its own.
func needsState(s *runs.Workspace, problem terraform.StateProblem) bool {
	return problem != "" && (problem != terraform.StateForeign || runs.InUse(s.Apply.Status.State))
}

// isSuccessor reports whether an empty state is a later version of the known one, so
// that its resources are destroyed.
func isSuccessor(version terraform.StateInfo, known *infrav1.StateStatus) bool {
	return version.Lineage != "" && known.Confirmation != infrav1.StateUnconfirmed &&
		known.Lineage == version.Lineage && version.Serial >= uint64(known.Serial)
}
