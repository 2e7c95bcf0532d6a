package template_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/template"
	"github.com/appthrust/capt/internal/testenv/memorytest"
)

// large sets a variable with many bytes, which placeholders use.
func large(bytes int) func(*template.Sources) {
	return func(s *template.Sources) {
		s.Apply.Spec.Variables["V"] = infrav1.StringValue(strings.Repeat("x", bytes))
	}
}

// The user of a workspace chooses the values of placeholders, and a text may have many of them.
func TestResolve_limitsWhatPlaceholdersExpandTo(t *testing.T) {
	const name, value = "has more than 253 bytes, the limit", "has more than 131072 bytes, the limit"
	const sum, files = "all values with placeholders together have more than 1048576 bytes, the limit", "have more than 1048576 bytes, the limit"
	many := strings.Repeat("${V}", 40)
	connection := &infrav1.ObjectReference{Name: many}
	each := func(count int, change func(i int) func(*template.Sources)) func(*template.Sources) {
		return func(s *template.Sources) {
			for i := range count {
				change(i)(s)
			}
		}
	}
	for _, tt := range []struct {
		name   string
		size   int
		change func(*template.Sources)
		field  string
		limit  string
	}{
		{"vars", 1 << 20, vars("name", `"`+many+`"`), "vars[0] (name)", value},
		{"vars with one placeholder", 1 << 20, vars("name", `"${V}"`), "vars[0] (name)", value},
		{"vars with a list", 1 << 20, vars("tags", `{"a":["b","`+many+`"]}`), "vars[0] (tags)", value},
		{"env", 1 << 20, env(infrav1.EnvVar{Name: "A", Value: &many}), "env A", value},
		{"backend", 1 << 20, backend("s3", `key = "`+many+`"`), "backend.configuration", value},
		{"all vars", 120 << 10, each(40, func(i int) func(*template.Sources) { return vars(fmt.Sprint("v", i), `"${V}"`) }), "vars[8] (v8)", sum},
		{"all strings of a value", 1 << 10, vars("tags", `["`+strings.Repeat(`${V}","`, 2_000)+`"]`), "vars[0] (tags)", sum},
		{"all env", 120 << 10, each(40, func(i int) func(*template.Sources) {
			return env(infrav1.EnvVar{Name: fmt.Sprint("E", i), Value: new("${V}")})
		}), "env E8", sum},
		{"connection Secret of the workspace", 1 << 20, applySpec(func(a *infrav1.WorkspaceTemplateApplySpec) { a.WriteConnectionSecretToRef = connection }), "writeConnectionSecretToRef.name", name},
		{"connection Secret of the template", 1 << 20, templateSpec(func(s *infrav1.WorkspaceSpec) { s.WriteConnectionSecretToRef = connection }), "writeConnectionSecretToRef.name", name},
		{"Secret", 1 << 20, env(infrav1.EnvVar{Name: "A", SecretKeyReference: ref(many, "k")}), "env A", name},
		{"ConfigMap", 1 << 20, env(infrav1.EnvVar{Name: "A", ConfigMapKeyReference: ref(many, "k")}), "env A", name},
		{"file", 1 << 20, configFile("f", `name = "`+many[:24]+`"`), "varFiles[0]", files},
		{"file in JSON", 1 << 20, func(s *template.Sources) {
			configFile("f", `{"name": ["`+many[:24]+`"]}`)(s)
			s.Template.Spec.Template.Spec.ForProvider.VarFiles[0].Format = infrav1.FileFormatJSON
		}, "varFiles[0]", files},
		{"all files", 100 << 10, each(32, func(i int) func(*template.Sources) { return configFile(fmt.Sprint("f", i), `name = "${V}"`) }), "varFiles[10]", files},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			s := sources(remote, large(tt.size), tt.change)
			var err error
			g.Expect(memorytest.Allocated(func() {
				template.ReferencesOf(s)
				_, err = template.Resolve(s)
			})).To(BeNumerically("<", 16<<20))
			problem, ok := errors.AsType[*template.Problem](err)
			g.Expect(ok).To(BeTrue(), "%v", err)
			g.Expect(problem.Reason).To(BeElementOf(infrav1.InvalidVariableReason, infrav1.InvalidVarFileReason))
			g.Expect(problem.Message).To(And(HavePrefix(tt.field+":"), ContainSubstring(tt.limit), ContainSubstring("shorten the value of ${V}")))
			g.Expect(len(problem.Message)).To(BeNumerically("<", 1000))
		})
	}
}

func TestResolve_expandsLongValues(t *testing.T) {
	g := NewWithT(t)
	long := strings.Repeat("y", 200<<10)
	inputs := resolve(g, remote, large(100<<10), env(infrav1.EnvVar{Name: "A", Value: new("${V}")}), vars("literal", `"`+long+`"`),
		configFile("f", `file = "${V}"`))
	g.Expect(inputs.Request.Env["A"]).To(HaveLen(100 << 10))
	g.Expect(inputs.Request.Variables["literal"]).To(HaveLen(200<<10+2), "without placeholders, the limit is that of a Secret")
	g.Expect(inputs.Request.Variables["file"]).To(HaveLen(100<<10 + 2))
}

func TestResolve_doesNotCountEscapes(t *testing.T) {
	g := NewWithT(t)
	escaped := "$${x}" + strings.Repeat("y", 1100<<10)
	inputs := resolve(g, remote, large(100<<10), vars("escaped", `"`+escaped+`"`), env(infrav1.EnvVar{Name: "A", Value: new("${V}")}))
	g.Expect(inputs.Request.Env["A"]).To(HaveLen(100 << 10))
	g.Expect(inputs.Request.Variables["escaped"]).To(HaveLen(len(escaped) - 1 + 2))
}

func TestExpandName_keepsNamesThatAreTooLong(t *testing.T) {
	g := NewWithT(t)
	apply := sources(large(1 << 20)).Apply
	name := strings.Repeat("${V}", 63)
	var expanded string
	g.Expect(memorytest.Allocated(func() { expanded = template.ExpandName(apply, name) })).To(BeNumerically("<", 64<<10))
	g.Expect(expanded).To(Equal(name))
	g.Expect(template.CheckName(apply, "spec.waitForSecrets[0].name", name)).To(MatchError(
		"InvalidVariable: spec.waitForSecrets[0].name: has more than 253 bytes, the limit, with the values of its placeholders: shorten the value of ${V}"))

	apply = sources(large(252)).Apply
	g.Expect(template.ExpandName(apply, "a${V}")).To(HaveLen(253))
	g.Expect(template.CheckName(apply, "", "a${V}")).To(Succeed())
	g.Expect(template.ExpandName(apply, "ab${V}")).To(Equal("ab${V}"))
}

func TestPreviewOf_showsValuesWithPlaceholders(t *testing.T) {
	g := NewWithT(t)
	preview, findings := template.PreviewOf(sources(remote, large(100<<10), env(infrav1.EnvVar{Name: "A", Value: new("${V}")}), env(infrav1.EnvVar{Name: "B", Value: new("${V}${V}")})))
	g.Expect(findings).To(ConsistOf(HaveField("Message", ContainSubstring("env B: has more than 131072 bytes"))))
	g.Expect(preview.Env["A"]).To(HaveLen(100 << 10))
	g.Expect(preview.Env["B"]).To(Equal("${V}${V}"))
}

// Many variables may take the same key of a large Secret or ConfigMap.
func TestResolve_limitsValuesFromKeys(t *testing.T) {
	content := func(bytes int) func(*template.Sources) {
		return func(s *template.Sources) {
			text := strings.Repeat("x", bytes)
			configMap("large", "k", text)(s)
			secret("large", "k", text)(s)
		}
	}
	variable := func(v infrav1.Variable) func(i int) func(*template.Sources) {
		return func(i int) func(*template.Sources) {
			return func(s *template.Sources) {
				v.Key = infrav1.VariableName(fmt.Sprint("v", i))
				s.Template.Spec.Template.Spec.ForProvider.Vars = append(s.Template.Spec.Template.Spec.ForProvider.Vars, v)
			}
		}
	}
	for _, tt := range []struct {
		name   string
		change func(i int) func(*template.Sources)
		one    string
		sum    string
	}{
		{"vars from a ConfigMap", variable(infrav1.Variable{ConfigMapKeyReference: ref("large", "k")}), "vars[2] (v2): all values from keys together have more than 2097152 bytes", "vars[20] (v20)"},
		{"vars from a Secret", variable(infrav1.Variable{SecretKeyReference: ref("large", "k")}), "vars[2] (v2): all values from keys together have more than 2097152 bytes", "vars[20] (v20)"},
		{"env from a ConfigMap", func(i int) func(*template.Sources) {
			return env(infrav1.EnvVar{Name: fmt.Sprint("E", i), ConfigMapKeyReference: ref("large", "k")})
		}, "env E0: the value has more than 131072 bytes", "env E20"},
		{"env from a Secret", func(i int) func(*template.Sources) {
			return env(infrav1.EnvVar{Name: fmt.Sprint("E", i), SecretKeyReference: ref("large", "k")})
		}, "env E0: the value has more than 131072 bytes", "env E20"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for size, want := range map[int]string{
				1 << 20:   tt.one + ", the limit",
				100 << 10: tt.sum + ": all values from keys together have more than 2097152 bytes, the limit",
			} {
				g := NewWithT(t)
				s := sources(remote, content(size))
				for i := range 32 {
					tt.change(i)(&s)
				}
				var err error
				g.Expect(memorytest.Allocated(func() { _, err = template.Resolve(s) })).To(BeNumerically("<", 8<<20))
				problem, ok := errors.AsType[*template.Problem](err)
				g.Expect(ok).To(BeTrue(), "%v", err)
				g.Expect(problem.Reason).To(Equal(infrav1.InvalidVariableReason))
				g.Expect(problem.Message).To(HavePrefix(want))
			}
		})
	}
}

// The objects that a template names may be large, and many.
func TestData_isLimited(t *testing.T) {
	g := NewWithT(t)
	all := []func(*template.Sources){remote}
	for i := range 5 {
		all = append(all, configFile(fmt.Sprint("f", i), ""), secretFile(fmt.Sprint("s", i), ""))
	}
	s := sources(all...)
	file := map[string][]byte{"f.tfvars": make([]byte, 1<<20)}
	data := template.NewData(&s)
	for i := range 4 {
		g.Expect(data.AddConfigMap(fmt.Sprint("f", i), file)).To(Succeed())
	}
	for _, err := range []error{data.AddConfigMap("f4", file), data.AddSecret("s0", file)} {
		problem, ok := errors.AsType[*template.Problem](err)
		g.Expect(ok).To(BeTrue(), "%v", err)
		g.Expect(problem.Reason).To(Equal(infrav1.InvalidVariableReason))
		g.Expect(problem.Message).To(ContainSubstring("have together more than 4194304 bytes, the limit: use fewer or smaller ones"))
	}
}
