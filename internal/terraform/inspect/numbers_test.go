package inspect_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/inspect"
)

// Text of which the type of a variable makes a number with many digits is not converted.
func TestLimits_ofNumbers(t *testing.T) {
	const text = `"1e99999999"`
	for declared, value := range map[string]string{
		"set(number)":                        `[` + text + `]`,
		"list(set(number))":                  `[[` + text + `]]`,
		"map(set(number))":                   `{"a":[` + text + `]}`,
		"tuple([string, set(number)])":       `["",[` + text + `]]`,
		"set(object({n = number}))":          `[{"n":` + text + `}]`,
		"object({s = set(tuple([number]))})": `{"s":[[` + text + `]]}`,
		"set(string)":                        `[` + text + `,"12e45678"]`,
		"object({commit = string})":          `{"commit":"12e45678"}`,
	} {
		t.Run(declared, func(t *testing.T) {
			g := NewWithT(t)
			values, problems := inspect.FromJSON(map[string]json.RawMessage{"a": json.RawMessage(value)})
			g.Expect(problems).To(BeEmpty())
			finishes(t, func() {
				m := inspect.Inline(terraform.Module{Content: fmt.Sprintf("variable \"a\" {\n  type = %s\n  default = %s\n}\n", declared, value)})
				g.Expect(m.Diagnostics.HasErrors()).To(BeFalse(), "%v", m.Diagnostics)
				g.Expect(inspect.Check(m, values, nil)).To(BeEmpty())
				file, problems, err := inspect.EncodeRequest(m, &terraform.Request{Variables: map[string]json.RawMessage{"a": json.RawMessage(value)}})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(problems).To(BeEmpty())
				g.Expect(file).To(MatchRegexp("[0-9]+e[0-9]+"))
				m = inspect.Inline(terraform.Module{Content: fmt.Sprintf("variable \"a\" {\n  type = object({a = optional(%s, %s)})\n}\n", declared, value)})
				g.Expect(m.Diagnostics.HasErrors()).To(BeFalse(), "%v", m.Diagnostics)
			})
		})
	}
}

// Types in JSON are limited like others.
func TestLimits_ofTypes(t *testing.T) {
	g := NewWithT(t)
	text := strings.Repeat("list(", 200_000) + "string" + strings.Repeat(")", 200_000)
	m := inspect.Inline(terraform.Module{Content: "variable \"a\" {\n  type = " + text + "\n}\n"})
	g.Expect(m.Diagnostics.HasErrors()).To(BeTrue())
	inJSON := must(json.Marshal(map[string]any{"variable": map[string]any{"a": map[string]any{"type": text}}}))
	m = inspect.Inline(terraform.Module{Content: string(inJSON), Format: terraform.FormatJSON})
	g.Expect(m.Diagnostics.HasErrors()).To(BeTrue())
}

// Directives of a template that follow each other are not nested.
func TestLimits_allowManyDirectives(t *testing.T) {
	for name, directives := range map[string]string{
		"if":   "%{ if var.a }x%{ else }y%{ endif }\n",
		"for":  "%{ for x in [1] ~}\n%{ if x == 1 }${x}%{ endif }\n%{~ endfor }\n",
		"both": "%{if true}%{for x in []}%{endfor}%{endif}",
	} {
		t.Run(name, func(t *testing.T) {
			m := inspect.Inline(terraform.Module{Content: "locals {\n  a = <<-EOT\n" + strings.Repeat(directives, 1000) + "\nEOT\n}\n"})
			NewWithT(t).Expect(m.Diagnostics.HasErrors()).To(BeFalse(), "%v", m.Diagnostics)
		})
	}
}
