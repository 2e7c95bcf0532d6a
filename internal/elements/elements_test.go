package elements_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/elements"
)

func TestCheckJSON_countsEveryValue(t *testing.T) {
	for text, values := range map[string]int{
		`[]`: 1, `{}`: 1, `[1,2,3]`: 4, `{"a":{"b":[1]}}`: 4, `"[,,,"`: 1, `["\",[",1]`: 3, `["\\",1]`: 3, `[[],[],[]]`: 4,
	} {
		g := NewWithT(t)
		g.Expect(json.Valid([]byte(text))).To(BeTrue(), text)
		g.Expect(elements.CheckJSON([]byte(text), values-1)).To(MatchError(ContainSubstring("elements")), text)
		g.Expect(elements.CheckJSON([]byte(text), values+3)).To(Succeed(), text)
	}
}

func TestCounter_countsTheObjectsOfLists(t *testing.T) {
	for text, objects := range map[string]int{
		`{"a":{"b":{}},"c":null}`: 0, `{"items":[{},{},null]}`: 3, `[{"a":[{}]},[[{}]],"{}","null"]`: 3, `["n",1,true,{"n":null}]`: 1,
		`]}]{"items":[{},{}]}`: 2, `[[]{}]`: 1,
		strings.Repeat("[", 20_000) + "{}" + strings.Repeat("]", 20_000) + `{"a":{}}[{}]`: 2,
	} {
		g := NewWithT(t)
		counter := &elements.Counter{}
		_, _ = counter.Write([]byte(text))
		g.Expect(counter.Objects).To(Equal(objects), text[:min(len(text), 50)])
		g.Expect(counter.Depth).To(BeZero())
		counter.Reset()
		g.Expect(counter.Memory()).To(BeZero())
	}
}

func TestCounter_countsMaps(t *testing.T) {
	for text, maps := range map[string]int{
		`{"a":{"b":{}},"c":null}`: 3, `{"items":[{},{"a":{}},null]}`: 2, `["{",{"{":"{"}]`: 0, strings.Repeat(`{"":`, 9_000): 9_000,
	} {
		counter := &elements.Counter{}
		_, _ = counter.Write([]byte(text))
		NewWithT(t).Expect(counter.Maps).To(Equal(maps), text[:min(len(text), 50)])
	}
}

func TestCheckYAML_countsLinesAndFlow(t *testing.T) {
	for name, text := range map[string]string{
		"lines": strings.Repeat("- 1\n", 1000), "flow": "[" + strings.Repeat("1,", 1000) + "1]", "nested": strings.Repeat("- ", 1000) + "1",
		"brackets": strings.Repeat("[", 1000), "maps": strings.Repeat("? ", 1000), "returns": strings.Repeat("- 1\r", 1000),
	} {
		NewWithT(t).Expect(elements.CheckYAML([]byte(text), 900)).To(HaveOccurred(), name)
		NewWithT(t).Expect(elements.CheckYAML([]byte(text), 2200)).To(Succeed(), name)
	}
}

// The counted tokens are never fewer than those of the lexer, whatever hides them.
func TestHCL_countsEveryToken(t *testing.T) {
	wide := strings.Repeat("7,", 1000)
	for name, text := range map[string]string{
		"list":                          "a = [" + wide + "]\n",
		"after a quote in a comment":    "a = /* \" */ [" + wide + "]\n",
		"after a comment of two lines":  "/*\n\" */ a = [" + wide + "]\n",
		"after a heredoc with a quote":  "a = <<E\n\"\nE\nb = [" + wide + "]\n",
		"in a template":                 "a = \"${[" + wide + "]}\"\n",
		"in a template of a heredoc":    "a = <<E\n# ${[" + wide + "]}\nE\n",
		"in lines of a template":        "a = <<E\n${\n[\n" + strings.ReplaceAll(wide, ",", ",\n") + "]}\nE\n",
		"after an escaped quote":        "a = \"\\\"\" b = [" + wide + "]\n",
		"after a template in one line":  "a = \"$${\" b = [" + wide + "]\n",
		"operators":                     "a = " + strings.Repeat("-", 1000) + "1\n",
		"words":                         strings.Repeat("a ", 1000) + "\n",
		"numbers and words":             "a = [" + strings.Repeat("1 a ", 500) + "]\n",
		"a string that does not end":    "a = \"\nb = [" + wide + "]\n",
		"characters that are not valid": "a = " + strings.Repeat("\xff", 1000),
	} {
		lexed, _ := hclsyntax.LexConfig([]byte(text), "main.tf", hcl.InitialPos)
		t.Log(name, len(lexed))
		NewWithT(t).Expect(elements.HCL([]byte(text))).To(BeNumerically(">=", len(lexed)*9/10), name)
	}
	long := "# " + strings.Repeat("a, ", 1000) + "\na = \"" + strings.Repeat("b, ", 1000) + "\"\n"
	NewWithT(t).Expect(elements.HCL([]byte(long))).To(BeNumerically("<", 10), "comments and texts are not expressions")
}
