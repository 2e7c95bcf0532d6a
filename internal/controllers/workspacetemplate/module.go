package workspacetemplate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/inspect"
	"github.com/appthrust/capt/internal/terraform/template"
)

// module inspects an inline module and shows what it declares. A remote one is
// inspected by the run that fetches it.
func module(_ context.Context, s *scope) error { return inspectModule(s) }

func inspectModule(s *scope) error {
	status, p := &s.template.Status, s.template.Spec.Template.Spec.ForProvider
	status.Variables, status.Outputs = nil, nil
	if p.Source != infrav1.ModuleSourceInline {
		return nil
	}
	format := terraform.FormatHCL
	if p.InlineFormat != "" {
		format = terraform.Format(p.InlineFormat)
	}
	m := inspect.Inline(p.Module, format)
	if errs := m.Diagnostics.Errors(); len(errs) > 0 {
		return fault.Stall(infrav1.ModuleInvalidReason, "%s", errs.Short())
	}
	status.Variables, status.Outputs = variables(m), outputs(m)
	return fits(m, p.Vars)
}

// Inspect shows in a template's status what the controller would.
func Inspect(template *infrav1.WorkspaceTemplate) error {
	s := &scope{template: template}
	if err := inspectModule(s); err != nil {
		return err
	}
	conditions.Set(template, metav1.Condition{
		Type: infrav1.ModuleValidCondition, Status: metav1.ConditionTrue, Reason: moduleReason(s), ObservedGeneration: template.Generation,
	})
	return nil
}

// moduleReason tells who inspected the module.
func moduleReason(s *scope) string {
	if s.template.Spec.Template.Spec.ForProvider.Source == infrav1.ModuleSourceInline {
		return infrav1.ModuleInspectedReason
	}
	return infrav1.ModuleNotInspectedReason
}

func moduleMessage(s *scope) string {
	if s.template.Spec.Template.Spec.ForProvider.Source != infrav1.ModuleSourceInline {
		return "A remote module is inspected by the run that fetches it"
	}
	return ""
}

// What the API takes.
const (
	mostDeclared = 512
	longestName  = 128
	longestType  = 4096
)

// variables lists the declared variables by name, as many as a status holds.
func variables(m *inspect.Module) []infrav1.DeclaredVariable {
	var declared []infrav1.DeclaredVariable
	for _, name := range names(m.Variables) {
		v := m.Variables[name]
		variable := infrav1.DeclaredVariable{Name: name, Required: new(v.Required)}
		if !v.TypeOmitted {
			variable.Type = limit(typeexpr.TypeString(v.Type), longestType)
		}
		declared = append(declared, variable)
	}
	return declared
}

// outputs lists the declared outputs by name, as many as a status holds.
func outputs(m *inspect.Module) []infrav1.DeclaredOutput {
	var declared []infrav1.DeclaredOutput
	for _, name := range names(m.Outputs) {
		declared = append(declared, infrav1.DeclaredOutput{Name: name, Sensitive: new(m.Outputs[name].Sensitive)})
	}
	return declared
}

// names sorts names and leaves out what the API would refuse.
func names[T any](declared map[string]T) []string {
	sorted := slices.DeleteFunc(slices.Sorted(maps.Keys(declared)), func(name string) bool {
		return name == "" || utf8.RuneCountInString(name) > longestName
	})
	return sorted[:min(len(sorted), mostDeclared)]
}

func limit(text string, longest int) string {
	runes := []rune(text)
	if len(runes) <= longest {
		return text
	}
	return string(runes[:longest-1]) + "…"
}

// fits checks the template's own values.
func fits(m *inspect.Module, vars []infrav1.Variable) error {
	reason := ""
	var messages []string
	for _, p := range template.CheckVars(m, vars) {
		if reason == "" {
			reason = infrav1.InvalidVariableReason
			if p.Kind == inspect.KindUnknown || p.Kind == inspect.KindInvalidName {
				reason = infrav1.UnknownVariableReason
			}
		}
		messages = append(messages, p.Message)
	}
	if len(messages) == 0 {
		return nil
	}
	return fault.Stall(reason, "vars: %s", shorten(messages))
}

// mostMessages is how many problems of one template are worth reading at once.
const mostMessages = 3

func shorten(messages []string) string {
	text := strings.Join(messages[:min(len(messages), mostMessages)], "; ")
	if more := len(messages) - mostMessages; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}
