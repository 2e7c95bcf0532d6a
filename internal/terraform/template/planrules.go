package template

import (
	"cmp"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
)

// PlanRules returns the rules of a policy for a request.
func PlanRules(rules []infrav1.PolicyRule) []terraform.PolicyRule {
	var converted []terraform.PolicyRule
	for _, rule := range rules {
		converted = append(converted, terraform.PolicyRule{
			Name: rule.Name, Match: terraform.PolicyMatch(cmp.Or(rule.Match, infrav1.PolicyMatchEachChange)), Action: terraform.PolicyAction(rule.Action),
			Expression: rule.Expression, Message: rule.Message, MessageExpression: rule.MessageExpression,
		})
	}
	return converted
}
