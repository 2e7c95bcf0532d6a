package template

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/inspect"
)

// Limits of WorkspaceTemplate.status.
const (
	maxDeclarations = 512
	maxNameLength   = 128
	maxTypeLength   = 4096
	maxDefault      = 1024
)

// maxListedProblems is how many problems one message lists.
const maxListedProblems = 3

// ParseModule parses the inline module of a template. It returns nil for another
// module, which the run that fetches it inspects.
func ParseModule(t *infrav1.WorkspaceTemplate) *inspect.Module {
	p := t.Spec.Template.Spec.ForProvider
	if p.Source != infrav1.ModuleSourceInline {
		return nil
	}
	return inspect.Inline(moduleOf(p))
}

// moduleOf returns the module of a template. That of a Flux source has no artifact yet.
func moduleOf(p infrav1.ModuleParameters) terraform.Module {
	if p.Source == infrav1.ModuleSourceFlux {
		artifact := &terraform.Artifact{}
		if p.SourceRef != nil {
			artifact.Source = p.SourceRef.String()
		}
		return terraform.Module{Source: terraform.SourceFlux, Entrypoint: p.Entrypoint, Artifact: artifact}
	}
	if p.Source == infrav1.ModuleSourceRemote {
		return terraform.Module{Source: terraform.SourceRemote, Format: format(p.InlineFormat), Address: p.Module, Version: p.Version, Entrypoint: p.Entrypoint}
	}
	return terraform.Module{Source: terraform.Source(p.Source), Content: p.Module, Format: format(p.InlineFormat), Files: p.Files, Entrypoint: p.Entrypoint}
}

// Inspect sets the status that the WorkspaceTemplate controller sets for a valid
// module: the declarations and the ModuleValid condition. The error is a
// *Problem if the module or the template's own values are invalid.
func Inspect(t *infrav1.WorkspaceTemplate) error {
	if err := SetDeclarations(t); err != nil {
		return err
	}
	meta.SetStatusCondition(&t.Status.Conditions, metav1.Condition{
		Type: infrav1.ModuleValidCondition, Status: metav1.ConditionTrue, Reason: ModuleValidReason(t), ObservedGeneration: t.Generation,
	})
	return nil
}

// SetDeclarations sets the variables and outputs in a template's status to what
// its inline module declares, and to none for another module. The error is a
// *Problem if the module or the template's own values are invalid. Invalid
// values do not hide the declarations.
func SetDeclarations(t *infrav1.WorkspaceTemplate) error {
	t.Status.Variables, t.Status.Outputs = nil, nil
	m := ParseModule(t)
	if m == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(t.Spec.Template.Spec.ForProvider.Files)) {
		if err := terraform.ValidateModuleFile(name); err != nil {
			return problem(infrav1.ModuleInvalidReason, "%v", err)
		}
	}
	if errs := m.Diagnostics.Errors(); len(errs) > 0 {
		return problem(infrav1.ModuleInvalidReason, "%s", errs.Short())
	}
	t.Status.Variables, t.Status.Outputs = declaredVariables(m), declaredOutputs(terraform.Select(selectionOf(t), m.Outputs))
	if problems := checkSelection(m, selectionOf(t)); len(problems) > 0 {
		return problem(infrav1.UnknownOutputReason, "outputs: %s", describeAll(problems))
	}
	problems := CheckVars(m, t.Spec.Template.Spec.ForProvider.Vars)
	if len(problems) == 0 {
		return nil
	}
	return problem(ReasonOf(problems[0].Kind), "vars: %s", describeAll(problems))
}

func describeAll(problems []inspect.Problem) string {
	var messages []string
	for _, p := range problems {
		messages = append(messages, p.Message)
	}
	return message.Sentences(messages, maxListedProblems)
}

// ModuleValidReason returns the reason of a true ModuleValid condition.
func ModuleValidReason(t *infrav1.WorkspaceTemplate) string {
	if t.Spec.Template.Spec.ForProvider.Source == infrav1.ModuleSourceInline {
		return infrav1.ModuleInspectedReason
	}
	return infrav1.ModuleNotInspectedReason
}

// declaredVariables returns the variables of a module by name, up to the limits
// of the status.
func declaredVariables(m *inspect.Module) []infrav1.DeclaredVariable {
	var declared []infrav1.DeclaredVariable
	for _, name := range declaredNames(m.Variables) {
		v := m.Variables[name]
		variable := infrav1.DeclaredVariable{Name: name, Required: new(v.Required), Default: declaredDefault(v)}
		if !v.TypeOmitted {
			variable.Type = message.TruncateWidth(typeexpr.TypeString(v.Type), maxTypeLength)
		}
		declared = append(declared, variable)
	}
	return declared
}

// declaredDefault returns the default of a variable for the status, or an empty
// string.
func declaredDefault(v *inspect.Variable) string {
	if v.Required || v.Sensitive || v.Default == cty.NilVal {
		return ""
	}
	text, err := ctyjson.Marshal(v.Default, v.Default.Type())
	if err != nil || utf8.RuneCount(text) > maxDefault {
		return ""
	}
	return string(text)
}

// declaredOutputs returns outputs of a module by name, up to the limits of the
// status.
func declaredOutputs(outputs map[string]*inspect.Output) []infrav1.DeclaredOutput {
	var declared []infrav1.DeclaredOutput
	for _, name := range declaredNames(outputs) {
		declared = append(declared, infrav1.DeclaredOutput{Name: name, Sensitive: new(outputs[name].Sensitive)})
	}
	return declared
}

// declaredNames returns the names that the API accepts, sorted.
func declaredNames[T any](declared map[string]T) []string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(declared)), func(name string) bool {
		return name == "" || utf8.RuneCountInString(name) > maxNameLength
	})
	return names[:min(len(names), maxDeclarations)]
}

// selectionOf returns the outputs that a template selects.
func selectionOf(t *infrav1.WorkspaceTemplate) terraform.Selection {
	outputs := t.Spec.Template.Spec.Outputs
	if len(outputs) == 0 {
		return nil
	}
	selection := terraform.Selection{}
	for _, o := range outputs {
		selection[o.Key()] = string(o.Name)
	}
	return selection
}

// requiredOutputs returns the outputs that the module must declare, with their names in the
// module: those that the workspace requires, and those that the template selects.
func (s Sources) requiredOutputs() ([]string, error) {
	required := s.Apply.Spec.RequiredOutputs
	selection := selectionOf(s.Template)
	if selection == nil {
		return required, nil
	}
	var missing []string
	for _, name := range required {
		if _, selected := selection[name]; !selected {
			missing = append(missing, name+message.Suggestion(name, slices.Sorted(maps.Keys(selection))))
		}
	}
	if len(missing) > 0 {
		return nil, problem(infrav1.UnknownOutputReason, "WorkspaceTemplate %s does not select the required outputs %s", s.Template.Name, strings.Join(missing, ", "))
	}
	return selection.Sources(), nil
}

// checkSelection returns what is wrong with the outputs that a template selects.
func checkSelection(m *inspect.Module, s terraform.Selection) []inspect.Problem {
	return slices.DeleteFunc(inspect.Check(m, nil, s.Sources()), func(p inspect.Problem) bool { return p.Kind != inspect.KindUnknownOutput })
}
