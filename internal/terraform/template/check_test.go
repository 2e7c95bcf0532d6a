package template_test

import (
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/template"
)

// changes returns its arguments as a slice.
func changes(c ...func(*template.Sources)) []func(*template.Sources) { return c }

// unknownFile adds a variables file in an object that is not among the sources.
func unknownFile(s *template.Sources) {
	configFile("unknown", "")(s)
	delete(s.ConfigMaps, "unknown")
}

func secretVariable(name string) func(*template.Sources) {
	return func(s *template.Sources) {
		p := &s.Template.Spec.Template.Spec.ForProvider
		p.Vars = append(p.Vars, infrav1.Variable{Key: infrav1.VariableName(name), SecretKeyReference: ref("${WORKSPACE_NAME}-keys", "k")})
	}
}

func configVariable(name string) func(*template.Sources) {
	return func(s *template.Sources) {
		p := &s.Template.Spec.Template.Spec.ForProvider
		p.Vars = append(p.Vars, infrav1.Variable{Key: infrav1.VariableName(name), ConfigMapKeyReference: ref("settings", "k")})
	}
}

// future marks a variable as known only after another run.
func future(name string) func(*template.Sources) {
	return func(s *template.Sources) { s.Future = map[string]bool{name: true} }
}

func TestCheck_returnsAllFindings(t *testing.T) {
	// finding is a reason and a variable.
	type finding [2]string
	tests := []struct {
		name    string
		changes []func(*template.Sources)
		want    []finding
	}{
		{name: "valid", want: nil},
		{name: "a missing variable", changes: changes(without("name")), want: []finding{{infrav1.MissingVariableReason, "name"}}},
		{
			name: "several problems", changes: changes(without("name"), given("sise", `3`), vars("tags", `{"a":"${x}"}`)),
			want: []finding{{infrav1.UnresolvedPlaceholderReason, ""}, {infrav1.UnknownVariableReason, "sise"}, {infrav1.MissingVariableReason, "name"}},
		},
		{name: "a missing variable may be in an unknown file", changes: changes(without("name"), unknownFile)},
		{name: "a missing variable may be in an unknown Secret", changes: changes(without("name"), secretVariable("name"))},
		{
			name: "another variable in an unknown Secret", changes: changes(without("name"), secretVariable("token")),
			want: []finding{{infrav1.MissingVariableReason, "name"}},
		},
		{name: "a value that a placeholder uses", changes: changes(given("region", `"eu"`), vars("tags", `{"r":"${region}"}`))},
		{name: "a value of the wrong type", changes: changes(given("size", `"x"`)), want: []finding{{infrav1.InvalidVariableReason, "size"}}},
		{name: "a placeholder for a later value", changes: changes(given("size", `"(output size)"`), future("size"))},
		{name: "a value that is not JSON", changes: changes(given("size", `{`)), want: []finding{{infrav1.InvalidVariableReason, "size"}}},
		{
			name: "an undeclared output", changes: changes(applySpec(func(a *infrav1.WorkspaceTemplateApplySpec) { a.RequiredOutputs = []string{"ids"} })),
			want: []finding{{infrav1.UnknownOutputReason, "ids"}},
		},
		{name: "an invalid file", changes: changes(configFile("f", "size = [")), want: []finding{{infrav1.InvalidVarFileReason, ""}}},
		{
			name: "placeholders in the environment",
			changes: changes(
				env(infrav1.EnvVar{Name: "A", Value: new("${a}")}), env(infrav1.EnvVar{Name: "B", SecretKeyReference: ref("${b}", "k")}),
				env(infrav1.EnvVar{Name: "C", ConfigMapKeyReference: ref("${c}", "k")}), env(infrav1.EnvVar{Name: "D", SecretKeyReference: ref("unknown", "k")}),
			),
			want: []finding{{infrav1.UnresolvedPlaceholderReason, ""}, {infrav1.UnresolvedPlaceholderReason, ""}, {infrav1.UnresolvedPlaceholderReason, ""}},
		},
		{
			name: "a placeholder in the connection Secret",
			changes: changes(templateSpec(func(w *infrav1.WorkspaceSpec) {
				w.WriteConnectionSecretToRef = &infrav1.ObjectReference{Name: "${x}"}
			})),
			want: []finding{{infrav1.UnresolvedPlaceholderReason, ""}},
		},
		{name: "a placeholder in the backend", changes: changes(backend("s3", `key = "${x}"`)), want: []finding{{infrav1.UnresolvedPlaceholderReason, ""}}},
		{name: "an invalid module is a problem of the template", changes: changes(text("variable {"), given("sise", `3`))},
		{name: "a remote module is checked by the run", changes: changes(remote, without("name"), given("sise", `3`))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []finding
			for _, f := range template.Check(sources(tt.changes...)) {
				got = append(got, finding{f.Reason, f.Variable})
				NewWithT(t).Expect(f.Message).NotTo(BeEmpty())
			}
			NewWithT(t).Expect(got).To(Equal(tt.want))
		})
	}
}
