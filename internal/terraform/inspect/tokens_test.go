package inspect

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	. "github.com/onsi/gomega"
)

// The counted tokens are never fewer than those of the lexer, whatever hides them.
func TestCount_countsEveryToken(t *testing.T) {
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
		"after a string of two lines":   "a = \"\n\" [" + wide + "]\n",
		"after a template of two lines": "a = \"${\n1}\" == [" + wide + "]\n",
		"after a string in a template":  "a = \"${\"\n\" == [" + wide + "]\n",
		"carriage returns":              "a = \"" + strings.Repeat("\r", 1000) + "\"\n",
		"characters that are not valid": "a = " + strings.Repeat("\xff", 1000),
		"such characters in a string":   "a = \"" + strings.Repeat("\xff", 1000) + "\"\n",
	} {
		lexed, _ := hclsyntax.LexConfig([]byte(text), "main.tf", hcl.InitialPos)
		t.Log(name, len(lexed))
		NewWithT(t).Expect(countHCL([]byte(text))).To(BeNumerically(">=", len(lexed)*9/10), name)
	}
	long := "# " + strings.Repeat("a, ", 1000) + "\na = \"" + strings.Repeat("b, ", 1000) + "\"\n"
	NewWithT(t).Expect(countHCL([]byte(long))).To(BeNumerically("<", 10), "comments and strings are not expressions")
}
