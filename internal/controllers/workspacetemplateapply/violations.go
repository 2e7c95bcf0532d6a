package workspacetemplateapply

import (
	"fmt"
	"slices"
	"strings"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
)

// Limits of the violations in the status.
const (
	maxViolations       = 32
	maxViolationMessage = 1024
	maxViolationAddress = 256
	maxViolating        = 5
	// maxPolicyName is the size of the name of a policy, maxRuleName that of a rule or a
	// kind, in bytes.
	maxPolicyName = 253
	maxRuleName   = 63
)

// recordViolations writes what the policies decided about a plan into its status. The
// report is the word of the run, so its texts are limited.
func recordViolations(plan *infrav1.PlanStatus, run *runRecord, result *terraform.Result) {
	if !decidesAbout(result.Operation) {
		return
	}
	if result.Plan == nil && result.Outcome != terraform.OutcomeDenied && result.Outcome != terraform.OutcomeSucceeded {
		// The run ended before the policies decided again.
		return
	}
	plan.PolicyDigest = run.policies()
	plan.PolicyAction, plan.Violations = infrav1.PolicyAction(terraform.Strictest(result.Violations)), nil
	if result.Outcome == terraform.OutcomeDenied {
		plan.PolicyAction = infrav1.PolicyDeny
	}
	for _, v := range result.Violations {
		if len(plan.Violations) == maxViolations || !terraform.IsPolicyAction(v.Action) || v.Kind == "" || v.Policy == "" || v.Rule == "" || v.Message == "" {
			continue
		}
		shown := infrav1.PolicyViolation{
			Kind: message.Truncate(v.Kind, maxRuleName), Policy: message.Truncate(v.Policy, maxPolicyName), Generation: max(v.Generation, 0),
			Rule: message.Truncate(v.Rule, maxRuleName), Action: infrav1.PolicyAction(v.Action),
			Message: message.Truncate(v.Message, maxViolationMessage), Count: int32(min(max(v.Count, 0), 1<<30)),
		}
		for _, address := range firstOf(v.Resources, maxViolating) {
			if address != "" {
				shown.Resources = append(shown.Resources, message.Truncate(address, maxViolationAddress))
			}
		}
		plan.Violations = append(plan.Violations, shown)
	}
}

// reportViolations counts the violations of a run and writes an event about them. The
// names are those of policies that exist: a run may report anything. An apply repeats what
// was reported for its plan, unless it is denied.
func (r *recorder) reportViolations(s *status, run *runRecord) {
	plan, result := s.apply.Status.Plan, run.result()
	if plan == nil || plan.Run != run.id && (result == nil || !result.Operation.AppliesPlan() || result.Outcome != terraform.OutcomeDenied) {
		return
	}
	var texts []string
	for _, v := range plan.Violations {
		if s.policies == nil || !slices.ContainsFunc(s.policies.Policies, func(p terraform.Policy) bool { return p.Kind == v.Kind && p.Name == v.Policy }) {
			continue
		}
		violationsOf(v.Kind, v.Policy, terraform.PolicyAction(v.Action)).Inc()
		texts = append(texts, string(v.Action)+": "+violationText(&v))
	}
	if len(texts) > 0 {
		// Several events with the same reason would be counted as one.
		policyViolated(message.Sentences(texts, maxListed)).Record(r.Recorder, s.apply, nil)
	}
}

// violationText returns a violation in one sentence, with the first resource.
func violationText(v *infrav1.PolicyViolation) string {
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
			texts = append(texts, violationText(&plan.Violations[i]))
		}
	}
	return texts
}

// deniedFault stalls because a policy denies a plan.
func deniedFault(plan *infrav1.PlanStatus, prefix, hint string) error {
	return fault.Stall(infrav1.PolicyDeniedReason, "%s: %s. Change the inputs or the policy, then a new plan is made%s",
		prefix, message.Sentences(violationsWith(plan, infrav1.PolicyDeny), maxListed), hint)
}

// approvalCause returns why a policy requires the approval of a plan, or an empty string.
func approvalCause(plan *infrav1.PlanStatus) string {
	if plan.PolicyAction != infrav1.PolicyRequireApproval {
		return ""
	}
	return ". Required by " + message.Sentences(violationsWith(plan, infrav1.PolicyRequireApproval), maxListed)
}
