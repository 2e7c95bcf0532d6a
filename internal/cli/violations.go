package cli

import (
	"fmt"
	"strings"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
)

// apiViolations returns violations in the form of a status.
func apiViolations(violations []terraform.PolicyViolation) []infrav1.PolicyViolation {
	var shown []infrav1.PolicyViolation
	for _, v := range violations {
		shown = append(shown, infrav1.PolicyViolation{
			Kind: v.Kind, Policy: v.Policy, Rule: v.Rule, Action: infrav1.PolicyAction(v.Action), Message: v.Message, Resources: v.Resources, Count: int32(v.Count),
		})
	}
	return shown
}

// actionColours are the colours of the actions of violated rules.
var actionColours = map[infrav1.PolicyAction]text.Colour{
	infrav1.PolicyDeny: text.Red, infrav1.PolicyRequireApproval: text.Yellow, infrav1.PolicyWarn: text.Yellow,
}

// listViolations returns the rules that a plan violates, as text.
func listViolations(violations []infrav1.PolicyViolation, style text.Style) string {
	if len(violations) == 0 {
		return ""
	}
	var out strings.Builder
	out.WriteString(style.Paint(text.Bold, "Policies:") + "\n\n")
	for i := range violations {
		v := &violations[i]
		fmt.Fprintf(&out, "  %s %s\n", style.Paint(actionColours[v.Action], string(v.Action)), message.OneLine(describeViolation(v)))
	}
	return out.String() + "\n"
}

// markdownViolations returns the rules that a plan violates as a list. Messages may
// contain values of the plan, so they are code.
func markdownViolations(violations []infrav1.PolicyViolation) string {
	if len(violations) == 0 {
		return ""
	}
	var out strings.Builder
	for i := range violations {
		v := &violations[i]
		line := strings.ReplaceAll(message.OneLine(text.Clean(describeViolation(v))), "`", "'")
		fmt.Fprintf(&out, "- **%s** `%s`\n", v.Action, line)
	}
	return out.String() + "\n"
}

// describeViolation returns policy, rule, message and resources of a violation.
func describeViolation(v *infrav1.PolicyViolation) string {
	line := fmt.Sprintf("%s %s, rule %s: %s", v.Kind, v.Policy, v.Rule, v.Message)
	if len(v.Resources) == 0 {
		return line
	}
	line += " (" + strings.Join(v.Resources, ", ")
	if more := int(v.Count) - len(v.Resources); more > 0 {
		line += fmt.Sprintf(" and %d more", more)
	}
	return line + ")"
}
