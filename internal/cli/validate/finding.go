// Package validate checks CAPT's manifests without a cluster. It reports what the API
// server and the webhooks would reject, and what would fail later in Terraform or Helm.
package validate

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity is the severity of a finding.
type Severity string

const (
	// Error means that the manifest would be rejected or would not work.
	Error Severity = "error"
	// Warning means that only a cluster shows whether the manifest works.
	Warning Severity = "warning"
)

// Rule is the rule that a finding violates.
type Rule string

// The rules.
const (
	RuleYAML            Rule = "yaml"
	RuleDuplicateKey    Rule = "duplicate-key"
	RuleDuplicateObject Rule = "duplicate-object"
	RuleNoObject        Rule = "no-object"
	RuleUnknownKind     Rule = "unknown-kind"
	RuleUnknownField    Rule = "unknown-field"
	RuleSchema          Rule = "schema"
	RuleAdmission       Rule = "admission"
	RuleReference       Rule = "reference"
	RuleCycle           Rule = "cycle"
	RuleModule          Rule = "module"
	RuleVariable        Rule = "variable"
	RulePlaceholder     Rule = "placeholder"
	RuleTargetPath      Rule = "target-path"
	RuleChart           Rule = "chart"
	RuleVersion         Rule = "version"
)

// Descriptions are the descriptions of all rules.
var Descriptions = map[Rule]string{
	RuleYAML:            "The file is valid YAML.",
	RuleDuplicateKey:    "The keys of a mapping are unique.",
	RuleDuplicateObject: "An object is defined once.",
	RuleNoObject:        "A document is a Kubernetes object.",
	RuleUnknownKind:     "The kind exists.",
	RuleUnknownField:    "The kind has the field.",
	RuleSchema:          "The object satisfies the schema and the CEL rules of its kind.",
	RuleAdmission:       "The object satisfies the rules of CAPT's webhooks.",
	RuleReference:       "The objects of references exist, and have a kind that the field accepts.",
	RuleCycle:           "Objects do not depend on each other in a cycle.",
	RuleModule:          "An inline module is valid.",
	RuleVariable:        "The values match the variables of the module.",
	RulePlaceholder:     "Every placeholder has a value.",
	RuleTargetPath:      "The chart has the value of the target path.",
	RuleChart:           "The chart can be loaded.",
	RuleVersion:         "The versions are compatible.",
}

// Finding is a problem in a manifest.
type Finding struct {
	// File is the path as the user gave it. Line and Column are the position in it.
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	// Object is the kind and name of the object.
	Object string `json:"object,omitempty"`
	// Path is the path of the field.
	Path     string   `json:"path,omitempty"`
	Severity Severity `json:"severity"`
	Rule     Rule     `json:"rule"`
	// Message is what is wrong and how to fix it.
	Message string `json:"message"`
}

// String returns the finding as one line.
func (f Finding) String() string {
	where := f.File
	if f.Line > 0 {
		where += fmt.Sprintf(":%d", f.Line)
	}
	text := fmt.Sprintf("%s: %s: ", where, f.Severity)
	if f.Object != "" {
		text += f.Object + ": "
	}
	if f.Path != "" {
		text += f.Path + ": "
	}
	return text + f.Message
}

// Failed reports whether any finding is an error.
func Failed(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == Error })
}

// sorted returns the findings sorted by position, without duplicates.
func sorted(findings []Finding) []Finding {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Object, b.Object),
			cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message),
		)
	})
	return slices.Compact(findings)
}
