package decision

import (
	"fmt"
	"strings"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// MaxListed is the number of resources or outputs that a message lists.
const MaxListed = 5

// ViolationText returns a violation in one sentence, with the first resource.
func ViolationText(v *infrav1.PolicyViolation) string {
	text := fmt.Sprintf("%s %s, rule %s: %s", v.Kind, v.Policy, v.Rule, strings.TrimSuffix(v.Message, "."))
	switch {
	case len(v.Resources) > 0 && v.Count > 1:
		text += fmt.Sprintf(" (%s and %d more)", v.Resources[0], v.Count-1)
	case len(v.Resources) > 0:
		text += " (" + v.Resources[0] + ")"
	}
	return text
}

// violationsWith returns the violations of rules with an action.
func violationsWith(plan *infrav1.PlanStatus, action infrav1.PolicyAction) []string {
	var texts []string
	for i := range plan.Violations {
		if plan.Violations[i].Action == action {
			texts = append(texts, ViolationText(&plan.Violations[i]))
		}
	}
	return texts
}

// deniedFault stalls because a policy denies a plan.
func deniedFault(plan *infrav1.PlanStatus, prefix, hint string) error {
	return fault.Stall(infrav1.PolicyDeniedReason, "%s: %s. Change the inputs or the policy, then a new plan is made%s",
		prefix, message.Sentences(violationsWith(plan, infrav1.PolicyDeny), MaxListed), hint)
}

// approvalCause returns why a policy requires the approval of a plan, or an empty string.
func approvalCause(plan *infrav1.PlanStatus) string {
	if plan.PolicyAction != infrav1.PolicyRequireApproval {
		return ""
	}
	return ". Required by " + message.Sentences(violationsWith(plan, infrav1.PolicyRequireApproval), MaxListed)
}
