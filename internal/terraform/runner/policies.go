package runner

import (
	"context"
	"fmt"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/change"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/policy"
)

// checkPolicies adds the violations of the policies by the plan in the plan file to the
// result. It returns true if a policy denies the plan. A plan that cannot be checked is an
// error, so nothing is applied.
func (r *Runner) checkPolicies(ctx context.Context, run *execution) (denied bool, err error) {
	if run.request.Policies == nil {
		return false, nil
	}
	evaluation := policy.New(run.request.Policies, run.decidedPlan())
	plan, err := r.describer.describe(ctx, run, func(plan *command.ShownPlan) error {
		return plan.Planned(run.refreshOnly(), func(planned change.Planned) error { return evaluation.Add(ctx, planned) })
	})
	if err == nil {
		run.result.Violations, err = evaluation.Finish(ctx, plan.mask)
	}
	if err != nil {
		return false, fmt.Errorf("checking the policies: %w", err)
	}
	for _, violation := range run.result.Violations {
		run.printf("Policy (%s): %s", violation.Action, violation)
	}
	if terraform.Strictest(run.result.Violations) != terraform.PolicyDeny {
		return false, nil
	}
	if run.result.Plan != nil {
		r.describer.storeChanges(ctx, run)
	}
	run.result.Outcome = terraform.OutcomeDenied
	return true, nil
}

// decidedPlan returns what policies see of the plan apart from its changes. A saved plan
// has no summary, and that of a refresh has no resources, so the changes are counted.
func (run *execution) decidedPlan() policy.Plan {
	once := run.request.OneShot
	plan := policy.Plan{
		Destroy: run.request.Operation.Destroys(), RefreshOnly: run.refreshOnly(), Partial: once != nil && len(once.Target) > 0,
		HideValues: run.request.Encryption != "",
	}
	if summary := run.result.Plan; summary != nil && !plan.RefreshOnly {
		plan.ToAdd, plan.ToChange, plan.ToDestroy = summary.Add, summary.Change, summary.Destroy
		return plan
	}
	for _, c := range run.changes {
		switch c.Action {
		case terraform.ActionCreate:
			plan.ToAdd++
		case terraform.ActionUpdate:
			plan.ToChange++
		case terraform.ActionDelete:
			plan.ToDestroy++
		case terraform.ActionReplace:
			plan.ToAdd++
			plan.ToDestroy++
		}
	}
	return plan
}
