// Package validate checks CAPT's manifests without a cluster: what the API
// server and the webhooks would refuse, and what would only fail later, when
// Terraform or Helm meets it.
package validate

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity tells whether a finding has to be mended.
type Severity string

const (
	// Error is a manifest that would be refused, or would not work.
	Error Severity = "error"
	// Warning is something that cannot be known without a cluster.
	Warning Severity = "warning"
)

// Rule names what a finding is about.
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

// Descriptions says of every rule what it holds.
var Descriptions = map[Rule]string{
	RuleYAML:            "The file is YAML.",
	RuleDuplicateKey:    "A key stands once in a mapping.",
	RuleDuplicateObject: "An object is given once.",
	RuleNoObject:        "A document is a Kubernetes object.",
	RuleUnknownKind:     "The kind exists.",
	RuleUnknownField:    "The kind has the field.",
	RuleSchema:          "The object fulfils the schema and the CEL rules of its kind.",
	RuleAdmission:       "The object fulfils the rules of CAPT's webhooks.",
	RuleReference:       "What an object refers to exists.",
	RuleCycle:           "Objects do not wait for each other in a circle.",
	RuleModule:          "An inline module is valid.",
	RuleVariable:        "The values fit the variables of the module.",
	RulePlaceholder:     "Every placeholder has a value.",
	RuleTargetPath:      "The chart takes the value.",
	RuleChart:           "The chart can be read.",
	RuleVersion:         "The versions fit together.",
}

// Finding is one thing that is wrong.
type Finding struct {
	// File is the file as it was named, Line and Column where in it.
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	// Object is kind and name.
	Object string `json:"object,omitempty"`
	// Path is the field.
	Path     string   `json:"path,omitempty"`
	Severity Severity `json:"severity"`
	Rule     Rule     `json:"rule"`
	// Message says what is wrong and what to write instead.
	Message string `json:"message"`
}

// String is the finding on one line.
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

// Failed tells whether any finding has to be mended.
func Failed(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == Error })
}

// sorted puts findings in the order of the files, each once.
func sorted(findings []Finding) []Finding {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Object, b.Object),
			cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message),
		)
	})
	return slices.Compact(findings)
}
