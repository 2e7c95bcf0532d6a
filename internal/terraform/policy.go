package terraform

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// PolicyAction is what a violated rule of a policy does.
type PolicyAction string

const (
	// PolicyDeny ends the run without applying the plan.
	PolicyDeny PolicyAction = "Deny"
	// PolicyRequireApproval saves the plan, which waits for approval.
	PolicyRequireApproval PolicyAction = "RequireApproval"
	// PolicyWarn only reports the violation.
	PolicyWarn PolicyAction = "Warn"
)

// policyActions are the actions of rules, the strictest first.
var policyActions = []PolicyAction{PolicyDeny, PolicyRequireApproval, PolicyWarn}

// PolicyMatch is what a rule of a policy is evaluated for.
type PolicyMatch string

const (
	// MatchEachChange evaluates a rule for each change of a resource.
	MatchEachChange PolicyMatch = "EachChange"
	// MatchPlan evaluates a rule once for the whole plan.
	MatchPlan PolicyMatch = "Plan"
)

// Policies are what decides about the plan of a run, and what the rules see of the
// workspace.
type Policies struct {
	Policies  []Policy        `json:"policies"`
	Workspace PolicyWorkspace `json:"workspace"`
	Template  PolicyTemplate  `json:"template"`
}

// Policy is a policy that applies to a workspace.
type Policy struct {
	Kind       string       `json:"kind"`
	Namespace  string       `json:"namespace,omitempty"`
	Name       string       `json:"name"`
	Generation int64        `json:"generation,omitempty"`
	Rules      []PolicyRule `json:"rules"`
}

// PolicyRule is one rule of a policy. Its expressions are CEL.
type PolicyRule struct {
	Name       string       `json:"name"`
	Match      PolicyMatch  `json:"match,omitempty"`
	Action     PolicyAction `json:"action"`
	Expression string       `json:"expression"`
	// Message describes a violation. MessageExpression returns it instead, if set.
	Message           string `json:"message,omitempty"`
	MessageExpression string `json:"messageExpression,omitempty"`
}

// PolicyWorkspace is what rules see of a workspace.
type PolicyWorkspace struct {
	Namespace   string            `json:"namespace"`
	Name        string            `json:"name"`
	ClusterName string            `json:"clusterName,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
}

// PolicyTemplate is what rules see of the template of a workspace.
type PolicyTemplate struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Version   string            `json:"version,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// Digest returns a hash of what decides about a plan. It is empty without policies. A
// policy that is created again with the same rules decides the same.
func (p *Policies) Digest() string {
	if p == nil || len(p.Policies) == 0 {
		return ""
	}
	content := Policies{Policies: slices.Clone(p.Policies), Workspace: p.Workspace, Template: p.Template}
	for i := range content.Policies {
		content.Policies[i].Generation = 0
	}
	text, err := json.Marshal(content)
	if err != nil { // Strings and numbers always marshal.
		panic(fmt.Sprintf("encoding policies: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// PolicyViolation is a rule that a plan violates.
type PolicyViolation struct {
	Kind       string       `json:"kind"`
	Policy     string       `json:"policy"`
	Generation int64        `json:"generation,omitempty"`
	Rule       string       `json:"rule"`
	Action     PolicyAction `json:"action"`
	// Message is that of the first resource.
	Message string `json:"message"`
	// Resources are the first resources that violate the rule, Count the number of all
	// of them. Both are empty for a rule about the whole plan.
	Resources []string `json:"resources,omitempty"`
	Count     int      `json:"count,omitempty"`
}

// String returns the violation in one line.
func (v PolicyViolation) String() string {
	return fmt.Sprintf("%s %s, rule %s: %s", v.Kind, v.Policy, v.Rule, v.Message)
}

// Strictest returns the strictest action of violations, or an empty string.
func Strictest(violations []PolicyViolation) PolicyAction {
	for _, action := range policyActions {
		if slices.ContainsFunc(violations, func(v PolicyViolation) bool { return v.Action == action }) {
			return action
		}
	}
	return ""
}

// SortViolations moves the violations of stricter rules to the front.
func SortViolations(violations []PolicyViolation) {
	slices.SortStableFunc(violations, func(a, b PolicyViolation) int {
		return slices.Index(policyActions, a.Action) - slices.Index(policyActions, b.Action)
	})
}

// IsPolicyAction reports whether a rule may have an action.
func IsPolicyAction(action PolicyAction) bool { return slices.Contains(policyActions, action) }
