package runner

import (
	"context"
	"slices"
	"time"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
)

// maxAtOnce limits the values, and the text of the plan, of an apply without a plan file:
// their size is compared with that of a Secret by means of the file.
const maxAtOnce = 256 << 10

// appliesAtOnce reports whether the run may plan and apply with one command, which is faster:
// nothing exists yet, and only the addresses of the changes decide about the plan.
func (run *execution) appliesAtOnce() bool {
	request := run.request
	size := 0
	for name, value := range request.Env {
		size += len(name) + len(value)
	}
	return request.Operation == terraform.OperationPlanAndApply && request.OneShot == nil && request.Policies == nil &&
		run.state != nil && len(run.state.working()) == 0 && size <= maxAtOnce && run.session.CanPlanAndApply()
}

// applyAtOnce plans and applies with one command. It returns false if nothing was applied,
// because the plan is not as simple as expected: a module can import resources, for example.
func (r *Runner) applyAtOnce(ctx context.Context, run *execution) (done bool, err error) {
	run.report.enter(terraform.PhasePlanning)
	planning, applying := time.Now(), time.Time{}
	result, err := run.session.PlanAndApply(ctx, run.request.PlanningArgs(), run.request.ApplyArgs, func(plan *command.PlanResult, size int64) bool {
		if size > maxAtOnce || len(plan.Drift) > 0 || !createsOnly(plan.Summary.Changes) {
			return false
		}
		r.usePlan(run, plan, nil)
		run.phase(terraform.PhasePlanning, planning)
		applying = time.Now()
		run.report.enter(terraform.PhaseApplying)
		run.report.expect(run.changes)
		run.report.log.mark()
		return true
	})
	switch {
	case applying.IsZero():
		run.phase(terraform.PhasePlanning, planning)
		if err == nil {
			run.printf("Planning once more, with a plan file")
		}
		return false, err
	case err != nil:
		run.phase(terraform.PhaseApplying, applying)
		return false, err
	case result.Applied == nil:
		run.result.Diagnostics = append(run.result.Diagnostics, result.Plan.Diagnostics...)
		return true, r.concludeUnchanged(ctx, run)
	default:
		run.phase(terraform.PhaseApplying, applying)
		return true, r.concludeApplied(ctx, run, result.Plan.Diagnostics)
	}
}

// createsOnly reports whether all changes create resources, or read data for them.
func createsOnly(changes []terraform.Change) bool {
	return !slices.ContainsFunc(changes, func(c terraform.Change) bool {
		return c.Action != terraform.ActionCreate && c.Action != terraform.ActionRead
	})
}

// planAgain writes the plan file of a run that has applied its plan at once: its values, and
// those of what was created meanwhile, are sensitive where that plan says so.
func (r *Runner) planAgain(ctx context.Context, run *execution, session *command.Session) error {
	_, err := session.Silent().Plan(ctx, command.PlanOptions{Out: r.workdir.PlanFile(), Args: run.request.PlanningArgs()})
	if err == nil {
		run.unsavedPlan = false
	}
	return err
}
