package runner

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
)

// appliesAtOnce reports whether the run may plan and apply with one command, which is faster:
// nothing exists yet, and only the plan itself decides whether it is applied.
func (run *execution) appliesAtOnce() bool {
	request := run.request
	size := 0
	for name, value := range request.Env {
		size += len(name) + len(value)
	}
	return request.Operation == terraform.OperationPlanAndApply && request.OneShot == nil && request.Policies == nil &&
		run.state != nil && len(run.state.working()) == 0 && size <= command.MaxPlanText &&
		!terraform.LimitsPlan(request.PlanArgs) && run.session.CanPlanAndApply()
}

// isSimple reports whether a plan can be applied without a plan file: it only creates
// resources, and its text has all values. With the file, the size of the state is compared
// with that of a Secret, and sensitive values are found.
func isSimple(plan *command.PlanResult, text string) bool {
	return !plan.ReadsData && len(plan.Drift) == 0 && createsOnly(plan.Summary.Changes) &&
		len(text) <= command.MaxPlanText && !strings.Contains(text, terraform.Mask)
}

// applyAtOnce plans and applies with one command. It returns false if nothing was applied,
// because the plan is not simple: a module can import resources, for example.
func (r *Runner) applyAtOnce(ctx context.Context, run *execution) (done bool, err error) {
	run.report.enter(terraform.PhasePlanning)
	planning, applying := time.Now(), time.Time{}
	result, err := run.session.PlanAndApply(ctx, run.request.PlanningArgs(), run.request.ApplyArgs, func(plan *command.PlanResult, text string) bool {
		if !isSimple(plan, text) {
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
	case !applying.IsZero():
		run.phase(terraform.PhaseApplying, applying)
		if err != nil {
			return false, err
		}
		return true, r.concludeApplied(ctx, run, result.Plan.Diagnostics)
	case err != nil:
		run.phase(terraform.PhasePlanning, planning)
		return false, err
	case result.Plan == nil:
		run.phase(terraform.PhasePlanning, planning)
		run.printf("Planning once more, with a plan file")
		return false, nil
	default:
		r.usePlan(run, result.Plan, nil)
		run.phase(terraform.PhasePlanning, planning)
		run.result.Diagnostics = append(run.result.Diagnostics, result.Plan.Diagnostics...)
		return true, r.concludeUnchanged(ctx, run)
	}
}

// createsOnly reports whether all changes create resources, or read data for them.
func createsOnly(changes []terraform.Change) bool {
	return !slices.ContainsFunc(changes, func(c terraform.Change) bool {
		return c.Action != terraform.ActionCreate && c.Action != terraform.ActionRead
	})
}

// planAgain writes the plan file of a run that has applied its plan at once, for the values
// that are sensitive, such as those of variables. The plan has none in resources and data.
func (r *Runner) planAgain(ctx context.Context, run *execution, session *command.Session) error {
	_, err := session.Silent().Plan(ctx, command.PlanOptions{Out: r.workdir.PlanFile(), Args: append(slices.Clip(run.request.PlanningArgs()), "-refresh=false")})
	if err == nil {
		run.unsavedPlan = false
	}
	return err
}
