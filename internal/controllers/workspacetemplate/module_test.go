package workspacetemplate

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func inline(module string, change ...func(*infrav1.ModuleParameters)) *scope {
	p := infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: module}
	for _, c := range change {
		c(&p)
	}
	template := &infrav1.WorkspaceTemplate{}
	template.Spec.Template.Spec.ForProvider = p
	return &scope{template: template}
}

func vars(pairs ...string) func(*infrav1.ModuleParameters) {
	return func(p *infrav1.ModuleParameters) {
		for i := 0; i < len(pairs); i += 2 {
			p.Vars = append(p.Vars, infrav1.Variable{Key: infrav1.VariableName(pairs[i]), Value: infrav1.Value{Raw: []byte(pairs[i+1])}})
		}
	}
}

func TestModule_showsWhatItDeclares(t *testing.T) {
	g := NewWithT(t)
	s := inline(`
variable "zone" {}
variable "size" {
  type    = number
  default = 1
}
variable "tags" {
  type = map(string)
}
output "id" { value = 1 }
output "auth" {
  value     = 2
  sensitive = true
}`)

	g.Expect(module(t.Context(), s)).To(Succeed())

	g.Expect(s.template.Status.Variables).To(Equal([]infrav1.DeclaredVariable{
		{Name: "size", Type: "number", Required: new(false)},
		{Name: "tags", Type: "map(string)", Required: new(true)},
		{Name: "zone", Required: new(true)},
	}))
	g.Expect(s.template.Status.Outputs).To(Equal([]infrav1.DeclaredOutput{
		{Name: "auth", Sensitive: new(true)}, {Name: "id", Sensitive: new(false)},
	}))
	g.Expect(moduleReason(s)).To(Equal(infrav1.ModuleInspectedReason))
}

func TestModule_showsNoMoreThanAStatusHolds(t *testing.T) {
	g := NewWithT(t)
	var text strings.Builder
	for i := range mostDeclared + 10 {
		fmt.Fprintf(&text, "variable \"v%04d\" {}\noutput \"o%04d\" { value = 1 }\n", i, i)
	}
	fmt.Fprintf(&text, "variable \"a%s\" {}\n", strings.Repeat("x", longestName))
	var attributes []string
	for i := range 1000 {
		attributes = append(attributes, fmt.Sprintf("attribute_%04d = string", i))
	}
	fmt.Fprintf(&text, "variable \"a_wide\" {\n type = object({ %s })\n}\n", strings.Join(attributes, ", "))
	s := inline(text.String())

	g.Expect(module(t.Context(), s)).To(Succeed())

	g.Expect(s.template.Status.Variables).To(HaveLen(mostDeclared))
	g.Expect(s.template.Status.Outputs).To(HaveLen(mostDeclared))
	g.Expect(s.template.Status.Variables[0].Name).To(Equal("a_wide"), "a name that the API refuses is left out")
	g.Expect([]rune(s.template.Status.Variables[0].Type)).To(HaveLen(longestType))
}

func TestModule_leavesARemoteModuleToTheRun(t *testing.T) {
	g := NewWithT(t)
	s := inline("git::https://example.com/network.git", func(p *infrav1.ModuleParameters) { p.Source = infrav1.ModuleSourceRemote })
	s.template.Status.Variables = []infrav1.DeclaredVariable{{Name: "of_an_earlier_inline_module"}}

	g.Expect(module(t.Context(), s)).To(Succeed())

	g.Expect(s.template.Status.Variables).To(BeEmpty())
	g.Expect(moduleReason(s)).To(Equal("InspectedByRun"))
}

func TestModule_saysWhatIsWrong(t *testing.T) {
	const declared = `variable "name" { type = string }
variable "size" { type = number }
`
	tests := []struct {
		name    string
		scope   *scope
		reason  string
		message string
	}{
		{name: "no HCL", scope: inline("variable \"name\" {\n"), reason: infrav1.ModuleInvalidReason, message: "main.tf:1: Unclosed configuration block"},
		{
			name: "no JSON", scope: inline("{", func(p *infrav1.ModuleParameters) { p.InlineFormat = infrav1.FileFormatJSON }),
			reason: infrav1.ModuleInvalidReason, message: "main.tf.json:1",
		},
		{name: "twice the same", scope: inline(declared + declared), reason: infrav1.ModuleInvalidReason, message: "main.tf:3: Duplicate variable declaration"},
		{name: "unknown variable", scope: inline(declared, vars("nmae", `"x"`)), reason: infrav1.UnknownVariableReason, message: `vars: the module has no variable "nmae"`},
		{name: "wrong type", scope: inline(declared, vars("size", `"hunter2"`)), reason: infrav1.InvalidVariableReason, message: `variable "size" takes number`},
		{
			name: "unknown variable with a placeholder", scope: inline(declared, vars("nmae", `"${x}"`)),
			reason: infrav1.UnknownVariableReason, message: `"nmae"`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)

			stalled, ok := fault.AsStalled(module(t.Context(), tt.scope))

			g.Expect(ok).To(BeTrue())
			g.Expect(stalled.Reason).To(Equal(tt.reason))
			g.Expect(stalled.Message()).To(ContainSubstring(tt.message))
			g.Expect(stalled.Message()).NotTo(ContainSubstring("hunter2"))
		})
	}
}

func TestModule_acceptsWhatAWorkspaceMayComplete(t *testing.T) {
	const declared = `variable "name" { type = string }
variable "size" { type = number }
`
	tests := []struct {
		name  string
		scope *scope
	}{
		{name: "a required variable without a value", scope: inline(declared)},
		{name: "a value of the type", scope: inline(declared, vars("size", "3"))},
		{name: "text that converts", scope: inline(declared, vars("size", `"3"`))},
		{name: "a placeholder for another type", scope: inline(declared, vars("size", `"${size}"`))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(module(t.Context(), tt.scope)).To(Succeed())
		})
	}
}
