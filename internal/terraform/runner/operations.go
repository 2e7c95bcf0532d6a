package runner

import (
	"archive/zip"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/record"
)

// perform does what the request asks for.
func (r *Runner) perform(ctx context.Context, run *running) error {
	switch run.request.Operation {
	case terraform.OperationPlan:
		return r.planAndKeep(ctx, run)
	case terraform.OperationApply:
		return r.applyKept(ctx, run)
	case terraform.OperationPlanAndApply, terraform.OperationDestroy:
		return r.planAndApply(ctx, run)
	case terraform.OperationCheckDrift:
		return r.checkDrift(ctx, run)
	case terraform.OperationRestoreState:
		return r.restore(ctx, run)
	default:
		return terminal("Unknown operation", fmt.Errorf("operation %q is unknown", run.request.Operation))
	}
}

// plan makes a plan and puts its summary into the result.
func (r *Runner) plan(ctx context.Context, run *running) (*command.PlanResult, error) {
	run.report.enter(terraform.PhasePlanning)
	started := time.Now()
	defer func() { run.phase(terraform.PhasePlanning, started) }()
	destroy := run.request.Operation == terraform.OperationDestroy
	// Arguments of an apply that shape its plan belong to the plan.
	planning, _ := terraform.SplitArgs(run.request.ApplyArgs)
	args := slices.Concat(run.request.PlanArgs, planning)
	if destroy {
		args = run.request.DestroyArgs
	}
	plan, err := run.session.Plan(ctx, command.PlanOptions{Out: r.workdir.PlanFile(), Destroy: destroy, Args: args})
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(r.workdir.PlanFile())
	if err != nil {
		return nil, fmt.Errorf("reading the plan: %w", err)
	}
	plan.Summary.ID = record.PlanID(content, r.RunID)
	run.result.Plan = &plan.Summary
	run.result.Blocked = run.request.BlockedBy(plan.Summary.Changes)
	run.result.Diagnostics = append(run.result.Diagnostics, plan.Diagnostics...)
	run.changes = plan.Summary.Changes
	return plan, nil
}

func (r *Runner) planAndKeep(ctx context.Context, run *running) error {
	plan, err := r.plan(ctx, run)
	if err != nil {
		return err
	}
	if !plan.HasChanges {
		return r.nothingToDo(ctx, run)
	}
	content, err := os.ReadFile(r.workdir.PlanFile())
	if err != nil {
		return fmt.Errorf("reading the plan: %w", err)
	}
	if err := r.store(ctx, run, plan.Summary.ID, record.ComponentPlan, content); err != nil {
		return fmt.Errorf("keeping the plan: %w", err)
	}
	run.result.Outcome = terraform.OutcomePlanned
	return nil
}

func (r *Runner) applyKept(ctx context.Context, run *running) error {
	content, first, err := r.load(ctx, run.request.Workspace.Namespace, run.request.Plan.ID)
	if apierrors.IsNotFound(err) {
		// Nobody can apply it any more: as with a stale one, another is made.
		run.result.StalePlan = true
		return terminal("Plan gone", err)
	}
	if err != nil {
		return fmt.Errorf("fetching the kept plan: %w", err)
	}
	if id := record.PlanID(content, record.RunID(first)); id != run.request.Plan.ID {
		return terminal("Wrong plan", fmt.Errorf("the kept plan is %s, not %s", id, run.request.Plan.ID))
	}
	// What is protected may have changed since the plan was made.
	changes, err := record.Changes(first)
	if err != nil {
		return err
	}
	if run.result.Blocked = run.request.BlockedBy(changes); len(run.result.Blocked) > 0 {
		run.result.Outcome = terraform.OutcomeBlocked
		return nil
	}
	run.changes = changes
	if err := os.WriteFile(r.workdir.PlanFile(), content, 0o600); err != nil {
		return fmt.Errorf("placing the kept plan: %w", err)
	}
	return r.apply(ctx, run)
}

func (r *Runner) planAndApply(ctx context.Context, run *running) error {
	plan, err := r.plan(ctx, run)
	if err != nil {
		return err
	}
	if !plan.HasChanges {
		return r.nothingToDo(ctx, run)
	}
	if len(run.result.Blocked) > 0 {
		run.result.Outcome = terraform.OutcomeBlocked
		return nil
	}
	return r.apply(ctx, run)
}

// apply applies the plan in the plan file, and nothing else.
func (r *Runner) apply(ctx context.Context, run *running) error {
	if err := r.checkSize(run); err != nil {
		return err
	}
	if err := r.snapshot(ctx, run); err != nil {
		return err
	}
	phase := terraform.PhaseApplying
	if run.request.Operation == terraform.OperationDestroy {
		phase = terraform.PhaseDestroying
	}
	run.report.enter(phase)
	run.report.expect(run.changes)
	started := time.Now()
	applied, err := run.session.Apply(ctx, r.workdir.PlanFile(), run.request.ApplyArgs)
	run.phase(phase, started)
	if err != nil {
		return err
	}
	run.result.Diagnostics = append(run.result.Diagnostics, applied.Diagnostics...)
	run.result.Outcome = terraform.OutcomeSucceeded
	// What was applied stays applied, whatever happens to the context now.
	return r.readOutputs(context.WithoutCancel(ctx), run)
}

func (r *Runner) nothingToDo(ctx context.Context, run *running) error {
	run.result.Outcome = terraform.OutcomeNoChanges
	return r.readOutputs(ctx, run)
}

// readOutputs takes the outputs from the state: the event stream leaves out the
// sensitive ones, and another process would cost more.
func (r *Runner) readOutputs(ctx context.Context, run *running) error {
	text, err := r.readState(ctx, run)
	if err != nil {
		return fmt.Errorf("reading the outputs: %w", err)
	}
	state, err := command.ParseState(text)
	if err != nil {
		return fmt.Errorf("reading the outputs: %w", err)
	}
	run.result.Outputs, run.result.State = state.Outputs, state.StateInfo
	if run.result.LockFile, err = run.session.LockFile(); err != nil {
		return err
	}
	return nil
}

func (r *Runner) checkDrift(ctx context.Context, run *running) error {
	run.report.enter(terraform.PhasePlanning)
	started := time.Now()
	plan, err := run.session.Plan(ctx, command.PlanOptions{RefreshOnly: true, Args: run.request.PlanArgs})
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

// restore puts a snapshot back, after taking one of what is there now.
func (r *Runner) restore(ctx context.Context, run *running) error {
	content, _, err := r.load(ctx, run.request.Workspace.Namespace, run.request.Snapshot)
	if apierrors.IsNotFound(err) {
		run.result.SnapshotMissing = true
		return terminal("No such snapshot", err)
	}
	if err != nil {
		return err
	}
	if err := r.snapshot(ctx, run); err != nil {
		return err
	}
	if err := r.replaceState(ctx, run, content); err != nil {
		return err
	}
	run.result.Outcome = terraform.OutcomeSucceeded
	return r.readOutputs(context.WithoutCancel(ctx), run)
}

// checkSize refuses a plan whose outcome would not fit the Secret of the state.
// The plan file holds the state before and the planned values, both compressed,
// which is close to what the backend will write.
func (r *Runner) checkSize(run *running) error {
	if run.request.Backend.Type != terraform.BackendKubernetes {
		return nil
	}
	archive, err := zip.OpenReader(r.workdir.PlanFile())
	if err != nil {
		return nil //nolint:nilerr // An encrypted plan cannot be looked into.
	}
	defer archive.Close()
	var estimate uint64
	for _, file := range archive.File {
		switch file.Name {
		case "tfstate":
			estimate += file.CompressedSize64
		case "tfplan":
			// Before and after of each change, of which one stays.
			estimate += file.CompressedSize64 / 2
		}
	}
	if run.request.Operation == terraform.OperationDestroy || estimate <= secretLimit {
		return nil
	}
	run.result.StateTooLarge = true
	return terminal("State too large", fmt.Errorf(
		"the state would be about %d KiB, and a Secret holds %d KiB; nothing was applied. Set a backend such as s3 in the WorkspaceProviderConfig, or split the module",
		estimate>>10, secretLimit>>10))
}
