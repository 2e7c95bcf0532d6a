package history

import (
	"slices"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
)

// Limits of the violations in the status.
const (
	MaxViolations       = 32
	MaxViolationMessage = 1024
	maxViolationAddress = 256
	maxViolating        = 5
	// maxPolicyName is the size of the name of a policy, maxRuleName that of a rule or a
	// kind, in bytes.
	maxPolicyName = 253
	maxRuleName   = 63
)

// recordViolations writes what the policies decided about a plan into its status. The
// run wrote the report, so its strings are limited.
func recordViolations(plan *infrav1.PlanStatus, run *runs.Run, result *terraform.Result) {
	if !runs.DecidesAbout(result.Operation) {
		return
	}
	if result.Plan == nil && result.Outcome != terraform.OutcomeDenied && result.Outcome != terraform.OutcomeSucceeded {
		// The run ended before the policies decided again.
		return
	}
	plan.PolicyDigest = run.Policies()
	plan.PolicyAction, plan.Violations = infrav1.PolicyAction(terraform.Strictest(result.Violations)), nil
	if result.Outcome == terraform.OutcomeDenied {
		plan.PolicyAction = infrav1.PolicyDeny
	}
	for _, v := range result.Violations {
		if len(plan.Violations) == MaxViolations || !terraform.IsPolicyAction(v.Action) || v.Kind == "" || v.Policy == "" || v.Rule == "" || v.Message == "" {
			continue
		}
		shown := infrav1.PolicyViolation{
			Kind: message.Truncate(v.Kind, maxRuleName), Policy: message.Truncate(v.Policy, maxPolicyName), Generation: max(v.Generation, 0),
			Rule: message.Truncate(v.Rule, maxRuleName), Action: infrav1.PolicyAction(v.Action),
			Message: message.Truncate(v.Message, MaxViolationMessage), Count: int32(min(max(v.Count, 0), 1<<30)),
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
func (r *Recorder) reportViolations(s *Status, run *runs.Run) {
	plan, result := s.Apply.Status.Plan, run.Result()
	if plan == nil || plan.Run != run.ID && (result == nil || !result.Operation.AppliesPlan() || result.Outcome != terraform.OutcomeDenied) {
		return
	}
	var texts []string
	for _, v := range plan.Violations {
		if s.Policies == nil || !slices.ContainsFunc(s.Policies.Policies, func(p terraform.Policy) bool { return p.Kind == v.Kind && p.Name == v.Policy }) {
			continue
		}
		violationsOf(v.Kind, v.Policy, terraform.PolicyAction(v.Action)).Inc()
		texts = append(texts, string(v.Action)+": "+decision.ViolationText(&v))
	}
	if len(texts) > 0 {
		// Several events with the same reason would be counted as one.
		policyViolated(message.Sentences(texts, decision.MaxListed)).Record(r.Recorder, s.Apply, nil)
	}
}
