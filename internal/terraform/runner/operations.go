package runner

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/statefile"
)

// perform executes the operation of the request.
func (r *Runner) perform(ctx context.Context, run *execution) error {
	switch run.request.Operation {
	case terraform.OperationPlan, terraform.OperationPlanDestroy:
		return r.planAndSave(ctx, run)
	case terraform.OperationApply, terraform.OperationApplyDestroy:
		return r.applySaved(ctx, run)
	case terraform.OperationPlanAndApply, terraform.OperationDestroy:
		return r.planAndApply(ctx, run)
	case terraform.OperationCheckDrift:
		return r.checkDrift(ctx, run)
	case terraform.OperationRestoreState:
		return r.restore(ctx, run)
	case terraform.OperationStateCommand:
		return r.stateCommand(ctx, run)
	case terraform.OperationShell:
		return r.shell(ctx, run)
	default:
		return terminal("Unknown operation", fmt.Errorf("operation %q is unknown", run.request.Operation))
	}
}

// plan creates a plan and adds its summary to the result.
func (r *Runner) plan(ctx context.Context, run *execution) (*command.PlanResult, error) {
	run.report.enter(terraform.PhasePlanning)
	run.description = nil
	started := time.Now()
	defer func() { run.phase(terraform.PhasePlanning, started) }()
	run.session.ServeProviders(ctx)
	options := command.PlanOptions{Out: r.workdir.PlanFile(), Destroy: run.request.Operation.Destroys(), Args: run.request.PlanningArgs()}
	plan, err := run.createPlan(ctx, options)
	if err != nil {
		return nil, err
	}
	content, err := r.workdir.ReadFile(r.workdir.PlanFile())
	if err != nil {
		return nil, fmt.Errorf("reading the plan: %w", err)
	}
	// A resource that was not found is removed from the state. Policies and protection
	// decide about it.
	if run.refreshOnly() {
		run.changes = slices.Concat(plan.Summary.Changes, plan.Drift)
	} else {
		run.changes = terraform.MarkNotFound(plan.Summary.Changes, plan.Drift)
		plan.Summary.Changes = run.changes
	}
	plan.Summary.ID = record.PlanID(content, run.changes, run.moduleDigest(), r.RunID)
	run.result.Plan = &plan.Summary
	run.result.Blocked = run.request.BlockedBy(run.changes)
	run.result.Diagnostics = append(run.result.Diagnostics, plan.Diagnostics...)
	return plan, nil
}

// isMissingContent reports whether a stored plan or state does not exist. A run in a
// pod has access only to what existed when it started.
func isMissingContent(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) }

func (r *Runner) planAndSave(ctx context.Context, run *execution) error {
	plan, err := r.plan(ctx, run)
	if err != nil {
		return err
	}
	if !plan.HasChanges {
		return r.concludeUnchanged(ctx, run)
	}
	if denied, err := r.checkPolicies(ctx, run); err != nil || denied {
		return err
	}
	if once := run.request.OneShot; once != nil && once.PlanOnly {
		r.describer.storeChanges(ctx, run)
		run.result.Outcome = terraform.OutcomePlanned
		return nil
	}
	return r.savePlan(ctx, run, plan)
}

// savePlan saves the plan until a user approves it.
func (r *Runner) savePlan(ctx context.Context, run *execution, plan *command.PlanResult) error {
	r.describer.storeChanges(ctx, run)
	content, err := r.workdir.ReadFile(r.workdir.PlanFile())
	if err != nil {
		return fmt.Errorf("reading the plan: %w", err)
	}
	err = r.storage.store(ctx, run, plan.Summary.ID, record.ComponentPlan, content, nil)
	if tooLarge(err) || errors.Is(err, record.ErrTooLarge) {
		return terminal("Plan too large", fmt.Errorf("the plan with %d changes does not fit into Secrets: split the module, or set approval: Auto (destroyApproval: Auto for a deletion), which does not store plans: %w", len(plan.Summary.Changes), err))
	}
	if err != nil {
		return fmt.Errorf("saving the plan: %w", err)
	}
	run.result.Outcome = terraform.OutcomePlanned
	// The plan can be applied only with the same providers.
	run.result.LockFile, err = run.session.LockFile()
	return err
}

func (r *Runner) applySaved(ctx context.Context, run *execution) error {
	content, first, err := r.storage.load(ctx, run.request.Workspace.Namespace, run.request.Plan.ID)
	if isMissingContent(err) {
		// As with a stale plan, the controller creates another one.
		run.result.StalePlan = true
		return terminal("Plan not found", err)
	}
	if err != nil {
		return fmt.Errorf("reading the saved plan: %w", err)
	}
	if module := first.Annotations[record.ModuleAnnotation]; module != run.moduleDigest() {
		run.result.StalePlan = true
		return terminal("Module changed", fmt.Errorf("the plan is for module %s, and the module is %s now", module, run.moduleDigest()))
	}
	changes, err := record.Changes(first)
	if err != nil {
		return err
	}
	if id := record.PlanID(content, changes, run.moduleDigest(), record.RunID(first)); id != run.request.Plan.ID {
		return terminal("Wrong plan", fmt.Errorf("the saved plan is %s, not %s", id, run.request.Plan.ID))
	}
	// The protected resources may have changed since the plan was created.
	if run.result.Blocked = run.request.BlockedBy(changes); len(run.result.Blocked) > 0 {
		run.result.Outcome = terraform.OutcomeBlocked
		return nil
	}
	run.changes, run.description = changes, nil
	if err := os.WriteFile(r.workdir.PlanFile(), content, 0o600); err != nil {
		return fmt.Errorf("writing the saved plan: %w", err)
	}
	if denied, err := r.checkPolicies(ctx, run); err != nil || denied {
		return err
	}
	return r.apply(ctx, run)
}

func (r *Runner) planAndApply(ctx context.Context, run *execution) error {
	plan, err := r.plan(ctx, run)
	if err != nil {
		return err
	}
	if !plan.HasChanges {
		return r.concludeUnchanged(ctx, run)
	}
	if denied, err := r.checkPolicies(ctx, run); err != nil || denied {
		return err
	}
	if terraform.Strictest(run.result.Violations) == terraform.PolicyRequireApproval || run.request.HoldsTainted(run.changes) {
		return r.savePlan(ctx, run, plan)
	}
	if len(run.result.Blocked) > 0 {
		r.describer.storeChanges(ctx, run)
		run.result.Outcome = terraform.OutcomeBlocked
		return nil
	}
	if run.changesExisting() {
		r.describer.storeChanges(ctx, run)
	}
	return r.apply(ctx, run)
}

// apply applies exactly the plan in the plan file.
func (r *Runner) apply(ctx context.Context, run *execution) error {
	if err := r.checkSize(run); err != nil {
		return err
	}
	if err := r.storage.snapshot(ctx, run); err != nil {
		return err
	}
	phase := terraform.PhaseApplying
	if run.request.Operation.Destroys() {
		phase = terraform.PhaseDestroying
	}
	run.report.enter(phase)
	if !run.refreshOnly() {
		run.report.expect(run.changes)
	}
	run.report.log.mark()
	started := time.Now()
	applying, done := run.applyContext(ctx)
	warnings, err := run.session.Apply(applying, r.workdir.PlanFile(), run.request.ApplyArgs)
	done()
	run.phase(phase, started)
	if err != nil {
		return err
	}
	run.result.Diagnostics = append(run.result.Diagnostics, warnings...)
	run.result.Outcome = terraform.OutcomeSucceeded
	// The changes are applied, so a cancellation must not prevent their record.
	if err := r.readOutputs(context.WithoutCancel(ctx), run); err != nil {
		return err
	}
	r.freeState(context.WithoutCancel(ctx), run)
	return nil
}

// freeState marks the state in a backend whose resources are destroyed, so that a new
// workspace may use it.
func (r *Runner) freeState(ctx context.Context, run *execution) {
	if !run.request.Operation.Destroys() || run.state != nil || run.result.State.Resources > 0 {
		return
	}
	if err := run.session.StatePush(ctx, statefile.Free(run.result.State), false); err != nil {
		run.printf("The empty state could not be marked as free: %v", err)
		// Another run has to do it: the next workspace of the name would refuse the state,
		// or wait for its lock for ever.
		run.session.LockLeft = true
	}
}

// concludeUnchanged completes a run whose plan has no changes.
func (r *Runner) concludeUnchanged(ctx context.Context, run *execution) error {
	run.result.Outcome = terraform.OutcomeNoChanges
	if err := r.readOutputs(ctx, run); err != nil {
		return err
	}
	r.freeState(ctx, run)
	return nil
}

// readOutputs reads the outputs from the state. The event stream omits sensitive
// outputs, and running the tool's output command would take longer.
func (r *Runner) readOutputs(ctx context.Context, run *execution) error {
	text, err := run.readState(ctx)
	if err != nil {
		return fmt.Errorf("reading the outputs: %w", err)
	}
	state, err := statefile.Parse(text)
	if err != nil {
		return fmt.Errorf("reading the outputs: %w", err)
	}
	run.result.Outputs, run.result.State = terraform.Select(run.request.Selection, state.Outputs), state.StateInfo
	if run.result.LockFile, err = run.session.LockFile(); err != nil {
		return err
	}
	return nil
}

func (r *Runner) checkDrift(ctx context.Context, run *execution) error {
	run.report.enter(terraform.PhasePlanning)
	started := time.Now()
	run.session.ServeProviders(ctx)
	plan, err := run.session.Plan(ctx, command.PlanOptions{RefreshOnly: true, Args: terraform.RefreshOnly(run.request.PlanArgs)})
	run.phase(terraform.PhasePlanning, started)
	if err != nil {
		return err
	}
	run.result.Drift = plan.Drift
	run.result.Outcome = terraform.OutcomeNoChanges
	if len(plan.Drift) > 0 {
		run.result.Outcome = terraform.OutcomeSucceeded
	}
	return nil
}

// restore restores a snapshot of the state, after taking a snapshot of the current
// state.
func (r *Runner) restore(ctx context.Context, run *execution) error {
	content, first, err := r.storage.load(ctx, run.request.Workspace.Namespace, run.request.Snapshot)
	if isMissingContent(err) {
		run.result.SnapshotMissing = true
		return terminal("Snapshot not found", err)
	}
	if err != nil {
		return err
	}
	if !record.IsStoredState(first, run.request.Workspace.Name) {
		return terminal("Not a snapshot", fmt.Errorf("secret %s is not a snapshot of this workspace", first.Name))
	}
	restored, err := statefile.Identify(content)
	if err != nil {
		return terminal("Not a state", err)
	}
	if err := r.storage.snapshot(ctx, run); err != nil {
		return err
	}
	if err := run.replaceState(ctx, content); err != nil {
		return err
	}
	// The backend has another state now, whether it can be read or not.
	run.result.State = restored
	run.result.Outcome = terraform.OutcomeSucceeded
	return r.readOutputs(context.WithoutCancel(ctx), run)
}

// checkSize returns an error if the state after the plan would not fit into its
// Secret.
func (r *Runner) checkSize(run *execution) error {
	if run.request.Backend.Type != terraform.BackendKubernetes || run.state != nil && run.state.carried != nil {
		// A state that is already too large may become smaller.
		return nil
	}
	archive, err := zip.OpenReader(r.workdir.PlanFile())
	if err != nil {
		return nil //nolint:nilerr // An encrypted plan is unreadable.
	}
	defer archive.Close()
	estimate := estimateState(archive.File)
	if run.request.Operation.Destroys() || estimate <= secretLimit {
		return nil
	}
	run.result.StateTooLarge = true
	return terminal("State too large", fmt.Errorf(
		"the state would have about %d KiB, but the limit of a Secret is %d KiB, so nothing was applied. Set a backend such as s3 in the WorkspaceProviderConfig, or split the module",
		estimate>>10, secretLimit>>10))
}

// estimateState returns the approximate compressed size of the state after a plan.
// The files of the plan contain the previous state and the planned values, both
// compressed as the backend compresses the new state.
func estimateState(plan []*zip.File) uint64 {
	var size uint64
	for _, file := range plan {
		switch file.Name {
		case "tfstate":
			size += file.CompressedSize64
		case "tfplan":
			// It contains the old and the new values of each change.
			size += file.CompressedSize64 / 2
		}
	}
	return size
}
