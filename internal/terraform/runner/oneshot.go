package runner

import (
	"context"
	"fmt"
	"strings"

	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
)

// createPlan creates the plan of the request. A one-shot operation changes its options, and
// must fit the state: the tool ignores addresses that do not.
func (run *execution) createPlan(ctx context.Context, options command.PlanOptions) (*command.PlanResult, error) {
	once := run.request.OneShot
	if once == nil {
		return run.session.Plan(ctx, options)
	}
	run.printf("One-shot operation: %s", once.Arguments())
	var state []string
	if len(once.Replace)+len(once.Target)+len(once.Import) > 0 {
		var err error
		if state, err = run.addresses(ctx); err != nil {
			return nil, err
		}
	}
	if err := once.CheckAddresses(state); err != nil {
		return nil, terminal("Operation refused", err)
	}
	options.Replace, options.Target, options.Import = once.Replace, once.Target, once.ImportBlocks()
	if options.RefreshOnly = once.RefreshOnly; once.RefreshOnly {
		options.Args = terraform.RefreshOnly(options.Args)
	}
	plan, err := run.session.Plan(ctx, options)
	if err != nil {
		return nil, err
	}
	if target := once.UnknownTarget(state, plan.Summary.Changes); target != "" {
		return nil, terminal("Operation refused", fmt.Errorf("neither the state nor the plan has a resource in %s%s: captctl state list shows what exists", target, message.Suggestion(target, state)))
	}
	if once.RefreshOnly {
		run.result.Drift = plan.Drift
	}
	return plan, nil
}

// refreshOnly reports whether the plan of the request updates only the state.
func (run *execution) refreshOnly() bool {
	return run.request.OneShot != nil && run.request.OneShot.RefreshOnly
}

// addresses returns the addresses of the resource instances in the state.
func (run *execution) addresses(ctx context.Context) ([]string, error) {
	if run.result.State.Lineage == "" || run.result.State.Resources == 0 {
		// The tool fails without a state.
		return nil, nil
	}
	list, err := run.session.StateList(ctx, nil)
	if err != nil {
		return nil, err
	}
	return strings.FieldsFunc(list, func(r rune) bool { return r == '\n' || r == '\r' }), nil
}
