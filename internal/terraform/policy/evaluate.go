package policy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/cel-go/cel"

	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/change"
)

// Limits of the reported violations.
const (
	maxViolations = 64
	maxMessage    = 1024
	maxResources  = 5
	maxAddress    = 256
)

// Plan is what the rules see of a plan apart from its changes.
type Plan struct {
	// Destroy is set if the plan destroys all resources.
	Destroy bool
	// RefreshOnly is set if the plan updates only the state. Its changes are those of the
	// state.
	RefreshOnly bool
	// Partial is set if the plan is limited to some resources. Others may follow in further
	// plans.
	Partial                    bool
	ToAdd, ToChange, ToDestroy int
	// HideValues reports no values, because the plan and the state are encrypted. Messages
	// are then those of the rules, which have none.
	HideValues bool
}

// Evaluation evaluates policies for a plan. It holds the addresses of all changes, but
// the values of one change only.
type Evaluation struct {
	rules                     []*rule
	plan, workspace, template map[string]any
	hide                      bool
	hasPlanRules              bool
	changes                   []any
	outputs                   map[string]any
}

// rule is a rule that is being evaluated.
type rule struct {
	policy *terraform.Policy
	terraform.PolicyRule
	program, message cel.Program
	// broken describes why the rule cannot be evaluated.
	broken string
	cost   uint64
	found  *terraform.PolicyViolation
}

// New returns an evaluation of policies. A rule that does not compile is violated.
func New(policies *terraform.Policies, plan Plan) *Evaluation {
	e := &Evaluation{
		hide: plan.HideValues, outputs: map[string]any{},
		plan: map[string]any{
			"destroy": plan.Destroy, "refreshOnly": plan.RefreshOnly, "partial": plan.Partial, "toAdd": plan.ToAdd, "toChange": plan.ToChange, "toDestroy": plan.ToDestroy,
		},
	}
	if policies == nil {
		return e
	}
	w, t := policies.Workspace, policies.Template
	e.workspace = map[string]any{"namespace": w.Namespace, "name": w.Name, "clusterName": w.ClusterName, "labels": orEmpty(w.Labels)}
	e.template = map[string]any{"namespace": t.Namespace, "name": t.Name, "version": t.Version, "labels": orEmpty(t.Labels)}
	for i := range policies.Policies {
		for _, r := range policies.Policies[i].Rules {
			e.rules = append(e.rules, newRule(&policies.Policies[i], r))
			e.hasPlanRules = e.hasPlanRules || r.Match == terraform.MatchPlan
		}
	}
	return e
}

func orEmpty(labels map[string]string) map[string]string {
	if labels == nil {
		return map[string]string{}
	}
	return labels
}

func newRule(policy *terraform.Policy, definition terraform.PolicyRule) *rule {
	r := &rule{policy: policy, PolicyRule: definition}
	if !terraform.IsPolicyAction(r.Action) {
		// A later version of CAPT may have more of them.
		r.broken, r.Action = fmt.Sprintf("action %q is unknown", r.Action), terraform.PolicyDeny
		return r
	}
	var err error
	if r.program, err = compile(r.Match, r.Expression, cel.BoolType); err != nil {
		r.broken = "expression " + err.Error()
		return r
	}
	if r.MessageExpression != "" {
		if r.message, err = compile(r.Match, r.MessageExpression, cel.StringType); err != nil {
			r.broken = "messageExpression " + err.Error()
		}
	}
	return r
}

// Add evaluates the rules for a change of the plan.
func (e *Evaluation) Add(ctx context.Context, planned change.Planned) error {
	switch {
	case planned.Resource != nil:
		return e.addResource(ctx, planned.Resource)
	case planned.Output != nil && e.hasPlanRules:
		output := valuesOf(&planned.Output.PlannedValues)
		output["action"] = string(planned.Output.Action)
		e.outputs[planned.Output.Name] = output
	}
	return nil
}

func (e *Evaluation) addResource(ctx context.Context, planned *change.PlannedResource) error {
	if e.hasPlanRules {
		e.changes = append(e.changes, changeOf(planned))
	}
	resource := changeOf(planned)
	maps.Copy(resource, valuesOf(&planned.PlannedValues))
	resource["replacePaths"] = texts(planned.ReplacePaths)
	activation := map[string]any{"resource": resource, "plan": e.plan, "workspace": e.workspace, "template": e.template}
	for _, r := range e.rules {
		if r.Match == terraform.MatchPlan || r.broken != "" {
			continue
		}
		if err := e.evaluate(ctx, r, activation, planned.Address); err != nil {
			return err
		}
	}
	return nil
}

// Finish evaluates the rules for the whole plan. It returns all violations, the strictest
// first, with masked texts: rules see all values that the tool does not mark as sensitive.
func (e *Evaluation) Finish(ctx context.Context, mask func(string) string) ([]terraform.PolicyViolation, error) {
	plan := map[string]any{"resourceChanges": e.changes, "outputs": e.outputs}
	if e.changes == nil {
		plan["resourceChanges"] = []any{}
	}
	maps.Copy(plan, e.plan)
	activation := map[string]any{"plan": plan, "workspace": e.workspace, "template": e.template}
	var violations []terraform.PolicyViolation
	for _, r := range e.rules {
		switch {
		case r.broken != "":
			r.violate(r.broken)
		case r.Match == terraform.MatchPlan:
			if err := e.evaluate(ctx, r, activation, ""); err != nil {
				return nil, err
			}
		}
		if r.found != nil {
			r.found.Message = message.Truncate(message.OneLine(mask(r.found.Message)), maxMessage)
			for i, address := range r.found.Resources {
				r.found.Resources[i] = message.Truncate(message.OneLine(mask(address)), maxAddress)
			}
			violations = append(violations, *r.found)
		}
	}
	terraform.SortViolations(violations)
	return violations[:min(len(violations), maxViolations)], nil
}

// evaluate evaluates a rule. A rule that cannot be evaluated is violated. It returns an
// error only if the context ended.
func (e *Evaluation) evaluate(ctx context.Context, r *rule, activation map[string]any, address string) error {
	text := ""
	if r.cost > maxTotalCost {
		text = fmt.Sprintf("The rule needs more than the limit of %d for this plan", maxTotalCost)
	} else {
		result, err := e.result(ctx, r, r.program, activation)
		violated, isBool := result.(bool)
		if err == nil && !isBool {
			err = errors.New("it does not return true or false")
		}
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("evaluating policies: %w", ctx.Err())
		case err != nil && e.hide:
			// The error may quote a value.
			text = "The rule cannot be evaluated"
		case err != nil:
			text = "The rule cannot be evaluated: " + err.Error()
		case !violated:
			return nil
		case r.found == nil:
			text = e.describe(ctx, r, activation)
		}
	}
	r.violate(text)
	if address != "" {
		r.found.Count++
		if len(r.found.Resources) < maxResources {
			r.found.Resources = append(r.found.Resources, address)
		}
	}
	return nil
}

// result evaluates an expression of a rule.
func (e *Evaluation) result(ctx context.Context, r *rule, program cel.Program, activation map[string]any) (any, error) {
	value, details, err := program.ContextEval(ctx, activation)
	if cost := details.ActualCost(); cost != nil {
		r.cost += *cost
	} else if err != nil {
		// It was stopped because of its cost.
		r.cost += maxCost
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // The message is shown as it is.
	}
	return value.Value(), nil
}

// describe returns the message of a violated rule.
func (e *Evaluation) describe(ctx context.Context, r *rule, activation map[string]any) string {
	if r.message == nil || e.hide {
		return r.Message
	}
	text, err := e.result(ctx, r, r.message, activation)
	if described, ok := text.(string); ok && err == nil && described != "" {
		return described
	}
	return r.Message
}

// violate records that the rule is violated. The first message counts.
func (r *rule) violate(text string) {
	if r.found != nil {
		return
	}
	if text == "" {
		text = "The plan violates the rule"
	}
	r.found = &terraform.PolicyViolation{
		Kind: r.policy.Kind, Policy: r.policy.Name, Generation: r.policy.Generation, Rule: r.Name, Action: r.Action,
		Message: text,
	}
}

// changeOf returns what the rules for a whole plan see of a change.
func changeOf(r *change.PlannedResource) map[string]any {
	return map[string]any{
		"address": r.Address, "previousAddress": r.PreviousAddress, "module": r.Module, "mode": r.Mode, "type": r.Type, "name": r.Name,
		"provider": r.Provider, "reason": r.Reason, "action": string(r.Action), "actions": texts(r.Actions),
	}
}

func valuesOf(v *change.PlannedValues) map[string]any {
	return map[string]any{
		"before": v.Before, "after": v.After,
		"changedPaths": texts(v.ChangedPaths), "unknownPaths": texts(v.UnknownPaths), "sensitivePaths": texts(v.SensitivePaths),
	}
}

// texts returns a list that is not nil.
func texts(list []string) []string { return slices.Concat([]string{}, list) }
