package inspect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/command/binary"
	"github.com/appthrust/capt/internal/terraform/command/commandtest"
	"github.com/appthrust/capt/internal/terraform/statefile"
)

// The real tool receives every value unchanged.
func TestEncodeRequest_roundTrip(t *testing.T) {
	awkward := `,"'{}[]()=#//<<EOT $${x} ${x} %{if true} %%{ \ \n` + "\n\t\r é 日本語 🚀 \u2028 \u0001 \u0000"
	quoted, err := json.Marshal(awkward)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct{ variableType, value, want string }{
		"text":           {"string", string(quoted), ""},
		"empty":          {"string", `""`, ""},
		"untyped":        {"", string(quoted), ""},
		"untyped_number": {"", `3`, ""},
		"untyped_object": {"", `{"a": [1, null]}`, ""},
		"long":           {"string", `"` + strings.Repeat("x", 200<<10) + `"`, ""},
		"looks_like_hcl": {"string", `"[1, 2]"`, ""},
		"integer":        {"number", `42`, ""},
		"big":            {"number", `123456789012345678901234567890`, ""},
		"fraction":       {"number", `-0.125`, ""},
		"number_text":    {"number", `"7"`, `7`},
		"flag":           {"bool", `true`, ""},
		"flag_text":      {"bool", `"false"`, `false`},
		"list":           {"list(string)", `["a,b", ` + string(quoted) + `, ""]`, ""},
		"map":            {"map(string)", `{"plain": "x", "with space": ` + string(quoted) + `, "${k}": "v", "a.b/c": "d"}`, ""},
		"object":         {"object({ a = string, b = optional(number, 5), c = list(object({ d = bool })) })", `{"a": "${a}", "c": [{"d": true}]}`, `{"a": "${a}", "b": 5, "c": [{"d": true}]}`},
		"nested_null":    {"object({ a = optional(string) })", `{"a": null}`, ""},
		"null_list":      {"list(string)", `null`, ""},
		"null_text":      {"string", `null`, ""},
		"not_nullable":   {"string", `null`, `"the default"`},
		"any_object":     {"any", `{"a": [1, "two", {"three": null}], "b": "${x}"}`, ""},
		"any_text":       {"any", `"just text"`, ""},
		"any_json_text":  {"any", `"[\"a\", \"b\"]"`, `["a", "b"]`},
		"json_text":      {"map(list(number))", `"{\"a\": [1, 2]}"`, `{"a": [1, 2]}`},
		"hcl_text":       {"list(string)", `"[\"a\", \"b\"]"`, `["a", "b"]`},
		"set":            {"set(string)", `["b", "a", "b"]`, `["a", "b"]`},
		"tuple":          {"tuple([string, number])", `["a", 1]`, ""},
	}
	var module strings.Builder
	encoded := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		fmt.Fprintf(&module, "variable %q {\n", name)
		if cases[name].variableType != "" {
			fmt.Fprintf(&module, "  type = %s\n", cases[name].variableType)
		}
		switch name {
		case "null_text":
			module.WriteString("  default = \"the default\"\n")
		case "not_nullable":
			module.WriteString("  default  = \"the default\"\n  nullable = false\n")
		case "null_list":
			module.WriteString("  default = [\"the default\"]\n")
		}
		fmt.Fprintf(&module, "}\noutput %q { value = var.%s }\n", name, name)
		encoded[name] = json.RawMessage(cases[name].value)
	}
	for product, path := range map[string]string{"OpenTofu": commandtest.Tofu(t), "Terraform": commandtest.Terraform()} {
		if path == "" {
			continue
		}
		t.Run(product, func(t *testing.T) {
			g := NewWithT(t)
			outputs := outputsOf(t, path, module.String(), encoded)
			for name, test := range cases {
				want := test.want
				if want == "" {
					want = test.value
				}
				if want == "null" {
					g.Expect(outputs).NotTo(HaveKey(name), "a null output is not stored")
					continue
				}
				g.Expect(string(outputs[name].Value)).To(MatchJSON(want), name)
			}
		})
	}
}

func outputsOf(t *testing.T, path, module string, variables map[string]json.RawMessage) map[string]terraform.Output {
	t.Helper()
	g := NewWithT(t)
	ctx := context.Background()
	w := &command.Workdir{Tool: &binary.Tool{Path: path}, Dir: filepath.Join(t.TempDir(), "work")}
	session, err := command.Prepare(ctx, w, &terraform.Request{
		RunID: "run", Operation: terraform.OperationPlanAndApply, Variables: variables, Grace: time.Minute,
		Module: terraform.Module{Source: terraform.SourceInline, Format: terraform.FormatHCL, Content: module},
	})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = session.Plan(ctx, command.PlanOptions{Out: w.PlanFile()})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = session.Apply(ctx, w.PlanFile(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	content, err := session.StatePull(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	state, err := statefile.Parse(content)
	g.Expect(err).NotTo(HaveOccurred())
	return state.Outputs
}
