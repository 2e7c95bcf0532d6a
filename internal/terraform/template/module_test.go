package template_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

// inline returns a template with an inline module.
func inline(module string, changes ...func(*template.Sources)) *infrav1.WorkspaceTemplate {
	return sources(append([]func(*template.Sources){text(module)}, changes...)...).Template
}

func inJSON(s *template.Sources) {
	s.Template.Spec.Template.Spec.ForProvider.InlineFormat = infrav1.FileFormatJSON
}

func TestSetDeclarations_listsVariablesAndOutputs(t *testing.T) {
	g := NewWithT(t)
	tpl := inline(`
variable "zone" {}
variable "size" {
  type    = number
  default = 1
}
variable "tags" {
  type = map(string)
}
variable "zones" {
  type    = list(string)
  default = null
}
variable "limits" {
  type = object({ cpu = optional(number, 2), memory = optional(string) })
  default = {}
}
variable "secret" {
  default   = "x"
  sensitive = true
}
output "id" { value = 1 }
output "auth" {
  value     = 2
  sensitive = true
}`)

	g.Expect(template.SetDeclarations(tpl)).To(Succeed())

	g.Expect(tpl.Status.Variables).To(Equal([]infrav1.DeclaredVariable{
		{Name: "limits", Type: "object({cpu=number,memory=string})", Required: new(false), Default: `{}`},
		{Name: "secret", Required: new(false)},
		{Name: "size", Type: "number", Required: new(false), Default: "1"},
		{Name: "tags", Type: "map(string)", Required: new(true)},
		{Name: "zone", Required: new(true)},
		{Name: "zones", Type: "list(string)", Required: new(false), Default: "null"},
	}))
	g.Expect(tpl.Status.Outputs).To(Equal([]infrav1.DeclaredOutput{
		{Name: "auth", Sensitive: new(true)}, {Name: "id", Sensitive: new(false)},
	}))
	g.Expect(template.ModuleValidReason(tpl)).To(Equal(infrav1.ModuleInspectedReason))
}

func TestSetDeclarations_keepsTheLimitsOfTheStatus(t *testing.T) {
	const maxDeclarations, maxNameLength, maxTypeLength = 512, 128, 4096
	g := NewWithT(t)
	var module strings.Builder
	for i := range maxDeclarations + 10 {
		fmt.Fprintf(&module, "variable \"v%04d\" {}\noutput \"o%04d\" { value = 1 }\n", i, i)
	}
	fmt.Fprintf(&module, "variable \"a%s\" {}\n", strings.Repeat("x", maxNameLength))
	var attributes []string
	for i := range 1000 {
		attributes = append(attributes, fmt.Sprintf("attribute_%04d = string", i))
	}
	fmt.Fprintf(&module, "variable \"a_wide\" {\n type = object({ %s })\n}\n", strings.Join(attributes, ", "))
	tpl := inline(module.String())

	g.Expect(template.SetDeclarations(tpl)).To(Succeed())

	g.Expect(tpl.Status.Variables).To(HaveLen(maxDeclarations))
	g.Expect(tpl.Status.Outputs).To(HaveLen(maxDeclarations))
	g.Expect(tpl.Status.Variables[0].Name).To(Equal("a_wide"), "a name that the API rejects is left out")
	g.Expect([]rune(tpl.Status.Variables[0].Type)).To(HaveLen(maxTypeLength))
}

func TestSetDeclarations_ofARemoteModuleAreEmpty(t *testing.T) {
	g := NewWithT(t)
	tpl := sources(remote).Template
	tpl.Status.Variables = []infrav1.DeclaredVariable{{Name: "of_an_earlier_inline_module"}}

	g.Expect(template.SetDeclarations(tpl)).To(Succeed())

	g.Expect(tpl.Status.Variables).To(BeEmpty())
	g.Expect(template.ModuleValidReason(tpl)).To(Equal("InspectedByRun"))
}

// declared is a module with two required variables.
const declared = `variable "name" { type = string }
variable "size" { type = number }
`

func TestSetDeclarations_rejectsInvalidModulesAndValues(t *testing.T) {
	tests := []struct {
		name     string
		template *infrav1.WorkspaceTemplate
		reason   string
		message  string
	}{
		{name: "invalid HCL", template: inline("variable \"name\" {\n"), reason: infrav1.ModuleInvalidReason, message: "main.tf:1: Unclosed configuration block"},
		{name: "invalid JSON", template: inline("{", inJSON), reason: infrav1.ModuleInvalidReason, message: "main.tf.json:1"},
		{name: "duplicate variable", template: inline(declared + declared), reason: infrav1.ModuleInvalidReason, message: "main.tf:3: Duplicate variable declaration"},
		{name: "unknown variable", template: inline(declared, vars("nmae", `"x"`)), reason: infrav1.UnknownVariableReason, message: `"nmae"`},
		{name: "the field is named", template: inline(declared, vars("nmae", `"x"`)), reason: infrav1.UnknownVariableReason, message: `vars: the module has no variable "nmae"`},
		{name: "wrong type", template: inline(declared, vars("size", `"hunter2"`)), reason: infrav1.InvalidVariableReason, message: `variable "size" requires type number`},
		{name: "unknown variable with a placeholder", template: inline(declared, vars("nmae", `"${x}"`)), reason: infrav1.UnknownVariableReason, message: `"nmae"`},
		{
			name:     "many unknown variables",
			template: inline(declared, vars("a", "1"), vars("b", "1"), vars("c", "1"), vars("d", "1"), vars("e", "1")),
			reason:   infrav1.UnknownVariableReason, message: "; and 2 more",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)

			problem, ok := errors.AsType[*template.Problem](template.SetDeclarations(tt.template))

			g.Expect(ok).To(BeTrue())
			g.Expect(problem.Reason).To(Equal(tt.reason))
			g.Expect(problem.Message).To(ContainSubstring(tt.message))
			g.Expect(problem.Message).NotTo(ContainSubstring("hunter2"))
			if tt.reason != infrav1.ModuleInvalidReason {
				g.Expect(tt.template.Status.Variables).To(HaveLen(2), "the declarations are shown nevertheless")
			}
		})
	}
}

func TestSetDeclarations_acceptsWhatAWorkspaceMayComplete(t *testing.T) {
	tests := []struct {
		name     string
		template *infrav1.WorkspaceTemplate
	}{
		{name: "a required variable without a value", template: inline(declared)},
		{name: "a value of the type", template: inline(declared, vars("size", "3"))},
		{name: "text that converts", template: inline(declared, vars("size", `"3"`))},
		{name: "a placeholder for another type", template: inline(declared, vars("size", `"${size}"`))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(template.SetDeclarations(tt.template)).To(Succeed())
		})
	}
}

func TestInspect_setsTheConditionOfAValidModule(t *testing.T) {
	g := NewWithT(t)
	valid := inline(declared)
	valid.Generation = 3
	g.Expect(template.Inspect(valid)).To(Succeed())
	g.Expect(valid.Status.Variables).To(HaveLen(2))
	condition := meta.FindStatusCondition(valid.Status.Conditions, infrav1.ModuleValidCondition)
	g.Expect(condition).To(And(HaveField("Status", BeEquivalentTo("True")), HaveField("Reason", "Inspected"), HaveField("ObservedGeneration", int64(3))))

	invalid := inline("variable {")
	g.Expect(template.Inspect(invalid)).NotTo(Succeed())
	g.Expect(invalid.Status.Conditions).To(BeEmpty())
}

func TestSetDeclarations_readsTheFilesOfTheRootModule(t *testing.T) {
	with := func(path string) *infrav1.WorkspaceTemplate {
		return inline(`output "id" { value = var.zone }`, func(s *template.Sources) {
			s.Template.Spec.Template.Spec.ForProvider.Files = map[string]string{path: `variable "zone" {}`}
		})
	}
	g := NewWithT(t)
	root := with("variables.tf")
	g.Expect(template.SetDeclarations(root)).To(Succeed())
	g.Expect(root.Status.Variables).To(HaveLen(1))
	called := with("modules/a/variables.tf")
	g.Expect(template.SetDeclarations(called)).To(Succeed())
	g.Expect(called.Status.Variables).To(BeEmpty())
	for path, want := range map[string]string{
		"../a.tf":              "outside the module's directory",
		"/etc/a.tf":            "outside the module's directory",
		"modules//a.tf":        `write "modules/a.tf"`,
		".terraform/a.tf":      "reserved",
		"modules/.hidden/a.tf": "begins with a dot",
		"zz_capt_override.tf":  "reserved",
		"main.tf":              "is the module itself",
		"a.auto.tfvars":        "use vars or varFiles",
	} {
		g.Expect(template.SetDeclarations(with(path))).To(MatchError(ContainSubstring(want)), path)
	}
}

// selects selects the output id of the module under another name.
func selects(as string) func(*template.Sources) {
	return templateSpec(func(w *infrav1.WorkspaceSpec) {
		w.Outputs = []infrav1.SelectedOutput{{Name: "id", As: infrav1.OutputName(as)}}
	})
}

func requires(names ...string) func(*template.Sources) {
	return func(s *template.Sources) { s.Apply.Spec.RequiredOutputs = names }
}

func TestResolve_selectsOutputs(t *testing.T) {
	g := NewWithT(t)
	inputs := resolve(g, selects("vpc_id"), requires("vpc_id"))
	g.Expect(inputs.Request.Outputs).To(ConsistOf("id"), "the module has the other name")
	g.Expect(inputs.Request.Selection).To(Equal(terraform.Selection{"vpc_id": "id"}))
	g.Expect(inputs.Hash).NotTo(Equal(resolve(g).Hash), "only a run returns the outputs under new names")
	g.Expect(resolve(g, selects("")).Request.Selection).To(Equal(terraform.Selection{"id": "id"}))

	_, err := template.Resolve(sources(selects("vpc_id"), requires("vpc_di", "id")))
	g.Expect(err).To(MatchError(`UnknownOutput: WorkspaceTemplate t does not select the required outputs vpc_di: did you mean "vpc_id"?, id`))
}

func TestSetDeclarations_listsSelectedOutputs(t *testing.T) {
	g := NewWithT(t)
	tpl := inline(module, selects("vpc_id"))
	g.Expect(template.SetDeclarations(tpl)).To(Succeed())
	g.Expect(tpl.Status.Outputs).To(ConsistOf(HaveField("Name", "vpc_id")))

	tpl = inline(`output "ids" { value = 1 }`, selects("vpc_id"))
	g.Expect(template.SetDeclarations(tpl)).To(MatchError(ContainSubstring(`outputs: the module has no output "id": did you mean "ids"?`)))
}
