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

// hugeNumbers are expressions that have a number with many digits, and convert it to text or to
// an integer.
func hugeNumbers() map[string]string {
	times := func(name string) string { return name + strings.Repeat(" * "+name, 60) }
	return map[string]string{
		"operator":         `"x${"1e99999999" + 0}"`,
		"negation":         `"x${-"1e99999999"}"`,
		"small number":     `"x${"1e-99999999" + 0}"`,
		"binary exponent":  `"x${"1p300000000" + 0}"`,
		"remainder":        `"x${"1e99999999" % 7}"`,
		"function":         `"x${tonumber("1e99999999")}"`,
		"argument":         `"x${max("1e99999999", 1)}"`,
		"rounding":         `floor("1e99999999")`,
		"address":          `cidrhost("10.0.0.0/8", "1e99999999")`,
		"text in parts":    `"x${tonumber(join("e", ["1", "99999999"]))}"`,
		"index":            `[1, 2][join("e", ["1", "99999999"])]`,
		"constant index":   `local.list["1e99999999"]`,
		"default":          `"x${lookup({a = 1}, "b", "1e99999999")}"`,
		"loops that grow":  `[for x in [1e999] : [for y in [` + times("x") + `] : "${` + times("y") + `}"]]`,
		"set of numbers":   `toset([tonumber("1e99999999")])`,
		"key of an object": `{(tonumber("1e99999999")) = 1}`,
	}
}

// A number with many digits is not converted, however it arises.
func TestLimits_ofNumbers(t *testing.T) {
	for name, text := range hugeNumbers() {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			module := terraform.Module{Content: "locals {\nlist = [1]\nv = " + text + "\n}\nvariable \"a\" {\n  default = 1\n  validation {\n    condition = length(\"x${local.v}\") > 0\n    error_message = \"No.\"\n  }\n}\n"}
			finishes(t, func() {
				g.Expect(inspect.CheckConditions(module, nil, nil, false)).To(BeEmpty())
				// A file of variables has no functions.
				inspect.ParseVarFile("vars", []byte("a = "+text), terraform.FormatHCL, map[string]string{"X": "y"})
				inJSON := must(json.Marshal(map[string]string{"a": "x${" + text + "}"}))
				inspect.ParseVarFile("vars", inJSON, terraform.FormatJSON, map[string]string{"X": "y"})
				inJSON = must(json.Marshal(map[string]string{"a": "x${" + text + "}${Y}"}))
				_, diagnostics := inspect.ParseVarFile("vars", inJSON, terraform.FormatJSON, map[string]string{"X": "y"})
				g.Expect(diagnostics.HasErrors()).To(BeTrue())
				inspect.Inline(terraform.Module{Content: "variable \"a\" {\n  type = string\n  default = " + text + "\n}\n"})
				list := inspect.Inline(terraform.Module{Content: `variable "a" { type = list(string) }`})
				values, _ := inspect.FromJSON(map[string]json.RawMessage{"a": must(json.Marshal("[" + text + "]"))})
				inspect.Check(list, values, nil)
			})
		})
	}
}

// Nor is text in the value or default of a variable of which the type makes a number.
func TestLimits_ofNumbersInVariables(t *testing.T) {
	const text = `"1e99999999"`
	for declared, value := range map[string]string{
		"set(number)":                        `[` + text + `]`,
		"list(set(number))":                  `[[` + text + `]]`,
		"map(set(number))":                   `{"a":[` + text + `]}`,
		"tuple([string, set(number)])":       `["",[` + text + `]]`,
		"tuple([set(number), number])":       `[[` + text + `],"x"]`,
		"set(object({n = number}))":          `[{"n":` + text + `}]`,
		"object({s = set(tuple([number]))})": `{"s":[[` + text + `]]}`,
	} {
		t.Run(declared, func(t *testing.T) {
			g := NewWithT(t)
			module := terraform.Module{Content: fmt.Sprintf("variable \"a\" {\n  type = %s\n}\n", declared)}
			values, problems := inspect.FromJSON(map[string]json.RawMessage{"a": json.RawMessage(value)})
			g.Expect(problems).To(BeEmpty())
			finishes(t, func() {
				g.Expect(inspect.Check(inspect.Inline(module), values, nil)).To(ConsistOf(HaveField("Message", ContainSubstring("too many digits"))))
				inspect.CheckConditions(module, values, nil, false)
				m := inspect.Inline(terraform.Module{Content: fmt.Sprintf("variable \"a\" {\n  type = %s\n  default = %s\n}\n", declared, value)})
				g.Expect(m.Diagnostics.HasErrors()).To(BeTrue())
				m = inspect.Inline(terraform.Module{Content: fmt.Sprintf("variable \"a\" {\n  type = object({a = optional(%s, %s)})\n}\n", declared, value)})
				g.Expect(m.Diagnostics.HasErrors()).To(BeTrue())
			})
		})
	}
}

// Text that looks like such a number is text, where a string is required.
func TestLimits_allowTextThatLooksLikeALargeNumber(t *testing.T) {
	g := NewWithT(t)
	m := inspect.Inline(terraform.Module{Content: `
variable "a" {
  type    = object({ commit = optional(string, "12e45678"), size = optional(number, "1e3"), tags = optional(set(string), ["12e45678"]) })
  default = { commit = "34e56789" }
}
`})
	g.Expect(m.Diagnostics.HasErrors()).To(BeFalse(), "%v", m.Diagnostics)
	values, problems := inspect.FromJSON(map[string]json.RawMessage{"a": json.RawMessage(`{"commit":"12e45678","size":"12e3","tags":["12e45678"]}`)})
	g.Expect(problems).To(BeEmpty())
	g.Expect(inspect.Check(m, values, nil)).To(BeEmpty())
	_, diagnostics := inspect.ParseVarFile("vars", []byte(`a = "${X}-12e45678"`+"\n"+`b = "12e45678"`+"\n"+`c = 1e9 * 1e9`), terraform.FormatHCL, map[string]string{"X": "12e45678"})
	g.Expect(diagnostics.HasErrors()).To(BeFalse(), "%v", diagnostics)
}

// Types are limited like values, in JSON too: they may contain defaults.
func TestLimits_ofTypes(t *testing.T) {
	loops := strings.TrimPrefix(bombs()["loops"], "v60 = ")
	for name, text := range map[string]string{
		"loops":   "object({a = optional(any, " + loops + ")})",
		"nesting": strings.Repeat("list(", 200_000) + "string" + strings.Repeat(")", 200_000),
		"numbers": `object({a = optional(string, "${"1e99999999" + 0}")})`,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			finishes(t, func() {
				m := inspect.Inline(terraform.Module{Content: "variable \"a\" {\n  type = " + text + "\n}\n"})
				g.Expect(m.Diagnostics.HasErrors()).To(BeTrue())
				inJSON := must(json.Marshal(map[string]any{"variable": map[string]any{"a": map[string]any{"type": text}}}))
				m = inspect.Inline(terraform.Module{Content: string(inJSON), Format: terraform.FormatJSON})
				g.Expect(m.Diagnostics.HasErrors()).To(BeTrue())
			})
		})
	}
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
