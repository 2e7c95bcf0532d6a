package inspect_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/zclconf/go-cty/cty"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/inspect"
	"github.com/appthrust/capt/internal/testenv/waits"
)

// deep are expressions that exhaust the stack of the parser.
func deep() map[string]string {
	const n = 5_000
	nested := map[string]string{"stack": strings.Repeat("(", 90_000)}
	for _, open := range []string{"(", "[", "{", "!", "-", "\"${", "a[", "f(", "true ? ", "1 + ", "a[*]", "a[0]"} {
		nested[open] = strings.Repeat(open, n)
	}
	nested["control"] = "\"" + strings.Repeat("%{ if true }", n) + "\""
	nested["lines"] = "(" + strings.Repeat("true ?\n", n)
	nested["lines of a loop"] = "{for k, v in {} : k => " + strings.Repeat("!\n", n) + "true}"
	nested["lines of a loop after a comment"] = "{ // loop\n for k, v in {} : k => " + strings.Repeat("!\n", n) + "true}"
	nested["number"] = "\"${1e600000000}\""
	return nested
}

// finishes fails if f takes long, and would so use much memory.
func finishes(t *testing.T, f func()) {
	t.Helper()
	start := time.Now()
	f()
	NewWithT(t).Expect(time.Since(start)).To(BeNumerically("<", waits.Timeout))
}

// A module, a file or a value that is nested deeply does not end the manager.
func TestLimits_ofNesting(t *testing.T) {
	for name, text := range deep() {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			m := inspect.Inline(terraform.Module{Content: "locals {\n  a = " + text + "\n}\n"})
			g.Expect(m.Diagnostics.HasErrors()).To(BeTrue())
			g.Expect(m.Diagnostics[0].Summary).To(Equal("Too complex"))
			_, diagnostics := inspect.NewVarFiles().Parse("vars", []byte("a = "+text), terraform.FormatHCL, map[string]string{"X": "y"})
			g.Expect(diagnostics.HasErrors()).To(BeTrue())
			inJSON, err := json.Marshal(map[string]any{"locals": map[string]string{"a": "${" + text + "}"}})
			g.Expect(err).NotTo(HaveOccurred())
			inspect.Inline(terraform.Module{Content: string(inJSON), Format: terraform.FormatJSON})
			inspect.NewVarFiles().Parse("vars", inJSON, terraform.FormatJSON, map[string]string{"X": "y"})
			list := inspect.Inline(terraform.Module{Content: `variable "a" { type = list(string) }`})
			values, problems := inspect.FromJSON(map[string]json.RawMessage{"a": must(json.Marshal("[a, " + text + "]"))})
			g.Expect(problems).To(BeEmpty())
			g.Expect(inspect.Check(list, values, nil)).NotTo(BeEmpty())
		})
	}
	t.Run("numbers in JSON", func(t *testing.T) {
		for text, refused := range map[string]bool{`{"a":1e600000000}`: true, `[1E-99999]`: true, `1.5e+1000`: true, `{"a":1e100,"b":"1e600000000"}`: false} {
			_, problems := inspect.FromJSON(map[string]json.RawMessage{"a": json.RawMessage(text)})
			NewWithT(t).Expect(len(problems) > 0).To(Equal(refused), text)
		}
	})
	t.Run("JSON", func(t *testing.T) {
		g := NewWithT(t)
		text := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
		_, problems := inspect.FromJSON(map[string]json.RawMessage{"a": json.RawMessage(text)})
		g.Expect(problems).To(HaveLen(1))
		m := inspect.Inline(terraform.Module{Content: `{"locals":{"a":` + strings.Repeat(text, 20) + `}}`, Format: terraform.FormatJSON})
		g.Expect(m.Diagnostics.HasErrors()).To(BeTrue())
	})
}

// Long files without deep expressions are not refused.
func TestLimits_allowLongFiles(t *testing.T) {
	var text strings.Builder
	text.WriteString("locals {\n  accounts = {\n")
	for i := range 3_000 {
		fmt.Fprintf(&text, "    \"name-%d\" = \"${1e10}-%d\" # ticket %d\n", i, i, i)
	}
	text.WriteString("  }\n}\n")
	m := inspect.Inline(terraform.Module{Content: text.String()})
	NewWithT(t).Expect(m.Diagnostics.HasErrors()).To(BeFalse(), "%v", m.Diagnostics)
}

func must(text []byte, err error) json.RawMessage {
	if err != nil {
		panic(err)
	}
	return text
}

// loops is a short expression whose value would need much memory.
func loops() string {
	numbers := "[" + strings.Repeat("1,", 1000) + "]"
	loops := numbers
	for range 5 {
		loops = "[for x in " + numbers + " : " + loops + "]"
	}
	return loops
}

// Expressions that are not literals are left to the tool, and refused where only literals are allowed.
func TestLimits_ofEvaluation(t *testing.T) {
	for name, text := range map[string]string{
		"loops": loops(), "operator": "60 * 60", "condition": `X == "y" ? 1 : 2`, "index": "[1, 2][0]", "splat": `[{a = 1}][*].a`,
		"negated text": `-"1e99999999"`, "directive": `"%{ for x in [1] }x%{ endfor }"`, "not a number": "!true",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			scope := map[string]string{"X": "y"}
			finishes(t, func() {
				_, diagnostics := inspect.NewVarFiles().Parse("vars", []byte("a = [{ b = "+text+" }]"), terraform.FormatHCL, scope)
				g.Expect(diagnostics.Short()).To(HavePrefix("vars:1: Not a literal: "))
				_, diagnostics = inspect.NewVarFiles().Parse("vars", must(json.Marshal(map[string]string{"a": "x${" + text + "}"})), terraform.FormatJSON, scope)
				g.Expect(diagnostics.Short()).To(HavePrefix("vars: Not a literal: "))
				m := inspect.Files(map[string][]byte{
					"main.tf":          []byte("variable \"a\" {\n  type = object({ b = optional(any, " + text + ") })\n  default = " + text + "\n}\n"),
					"terraform.tfvars": []byte("a = " + text),
				})
				g.Expect(m.Diagnostics.HasErrors()).To(BeFalse(), "%v", m.Diagnostics)
				g.Expect(m.Variables["a"].Required).To(BeFalse())
				g.Expect(m.Variables["a"].Default).To(Equal(cty.NilVal))
				g.Expect(m.Provided).To(HaveKey("a"))
				values, _ := inspect.FromJSON(map[string]json.RawMessage{"b": must(json.Marshal("[{ b = " + text + " }]"))})
				list := inspect.Inline(terraform.Module{Content: `variable "b" { type = list(any) }`})
				g.Expect(inspect.Check(list, values, nil)).NotTo(BeEmpty())
			})
		})
	}
}

// Modules that are large, but not complex, are read.
func TestLimits_allowLargeModules(t *testing.T) {
	var module strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&module, "resource \"terraform_data\" \"r%d\" {\n  input = { name = \"${var.name}-%d\", tags = [\"a\", \"b\"] }\n}\n", i, i)
	}
	module.WriteString("locals {\n  script = <<-EOT\n" + strings.Repeat("    case \"$x\" in (a) echo ${var.name} ;; esac; y=$(( (1 + 2) * 3 ))\n", 1200) + "  EOT\n")
	module.WriteString("  sum = " + strings.Repeat("1 + ", 200) + "1\n}\n")
	m := inspect.Inline(terraform.Module{Content: module.String()})
	NewWithT(t).Expect(m.Diagnostics.HasErrors()).To(BeFalse(), "%v", m.Diagnostics)
}

// The modules of the repository are far from the limits.
func TestLimits_allowTheShippedModules(t *testing.T) {
	g := NewWithT(t)
	dirs, err := filepath.Glob("../../../modules/*")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(dirs).NotTo(BeEmpty())
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		m, err := inspect.Dir(dir)
		g.Expect(err).NotTo(HaveOccurred(), dir)
		g.Expect(m.Diagnostics.HasErrors()).To(BeFalse(), "%s: %v", dir, m.Diagnostics)
	}
}

// Two bytes of a list need several hundred in the memory of the manager, which has 128 MiB. What is
// too wide is refused before it is decoded.
func TestLimits_ofElements(t *testing.T) {
	wide := "[" + strings.Repeat("7,", 700_000) + "7]"
	refused := func(name string, check func() string, message string) {
		t.Helper()
		g := NewWithT(t)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		text := check()
		runtime.ReadMemStats(&after)
		g.Expect(text).To(ContainSubstring(message), name)
		g.Expect(after.TotalAlloc-before.TotalAlloc).To(BeNumerically("<", 32<<20), name)
	}
	refused("a value", func() string {
		_, problems := inspect.FromJSON(map[string]json.RawMessage{"a": json.RawMessage(wide)})
		return fmt.Sprint(problems)
	}, "more than 20000 elements")
	refused("many values", func() string {
		values := map[string]json.RawMessage{}
		for i := range 100 {
			values[fmt.Sprint("v", i)] = json.RawMessage("[" + strings.Repeat("7,", 300) + "7]")
		}
		_, problems := inspect.FromJSON(values)
		return fmt.Sprint(problems)
	}, "more than 20000 elements")
	refused("a file of variables", func() string {
		_, diagnostics := inspect.NewVarFiles().Parse("vars", []byte("a = "+wide), terraform.FormatHCL, nil)
		return fmt.Sprint(diagnostics)
	}, "more than 100000 tokens")
	refused("a file of variables in JSON", func() string {
		_, diagnostics := inspect.NewVarFiles().Parse("vars", []byte(`{"a":`+wide+`}`), terraform.FormatJSON, nil)
		return fmt.Sprint(diagnostics)
	}, "more than 100000 tokens")
	refused("a module", func() string {
		return fmt.Sprint(inspect.Inline(terraform.Module{Content: "locals {\n  a = " + wide + "\n}\n"}).Diagnostics)
	}, "more than 100000 tokens")
	refused("a text with a list", func() string {
		list := inspect.Inline(terraform.Module{Content: `variable "a" { type = list(string) }`})
		values, problems := inspect.FromJSON(map[string]json.RawMessage{"a": must(json.Marshal(wide))})
		return fmt.Sprint(problems, inspect.Check(list, values, nil))
	}, "requires type list")

	g := NewWithT(t)
	files := map[string][]byte{}
	for i := range 10 {
		files[fmt.Sprintf("m%d.tf", i)] = []byte(fmt.Sprintf("locals {\n  a%d = [%s]\n}\n", i, strings.Repeat("7,", 20_000)))
	}
	g.Expect(fmt.Sprint(inspect.Files(files).Diagnostics)).To(ContainSubstring("more than 100000 tokens"), "all files of a module count")
	_, problems := inspect.FromJSON(map[string]json.RawMessage{"a": json.RawMessage("[" + strings.Repeat("7,", 19_000) + "7]")})
	g.Expect(problems).To(BeEmpty())
}
