package inspect

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
)

func fromJSON(t *testing.T, text string) Values {
	t.Helper()
	var encoded map[string]json.RawMessage
	NewWithT(t).Expect(json.Unmarshal([]byte(text), &encoded)).To(Succeed())
	values, problems := FromJSON(encoded)
	NewWithT(t).Expect(problems).To(BeEmpty())
	return values
}

func TestCheck(t *testing.T) {
	const module = `
variable "region" { 
  type        = string 
  description = "Where to build." 
  nullable    = false
}
variable "count_of" { 
  type    = number 
  default = 1 
}
variable "on" { 
  type    = bool
  default = false
}
variable "tags" { 
  type    = map(string)
  default = {}
}
variable "nodes" {
  type = list(object({ name = string, size = optional(number, 1) }))
  default = []
}
variable "untyped" { default = null }
variable "anything" {
  type    = any
  default = null
}
output "cluster_name" { value = 1 }
`
	tests := []struct {
		name, values string
		outputs      []string
		want         []Problem
	}{
		{name: "valid values", values: `{"region": "eu", "count_of": "3", "on": "true", "tags": {"a": 1}, "nodes": [{"name": "x"}], "anything": {"a": [1, "b", null]}, "untyped": {"a": null}}`},
		{name: "strings with complex values", values: `{"region": "eu", "tags": "{\"a\": \"${b}\"}", "nodes": "[{ name = \"x\" }]"}`},
		{
			name: "missing", values: `{}`,
			want: []Problem{{KindMissing, "region", `variable "region" is required and has no value (Where to build.)`}},
		},
		{
			name: "null for a required variable", values: `{"region": null}`,
			want: []Problem{{KindMissing, "region", `variable "region" is required and has no value (Where to build.)`}},
		},
		{
			name: "unknown", values: `{"region": "eu", "regoin": "eu", "zzz": 1}`,
			want: []Problem{
				{KindUnknown, "regoin", `the module has no variable "regoin": did you mean "region"?`},
				{KindUnknown, "zzz", `the module has no variable "zzz"`},
			},
		},
		{
			name: "invalid name", values: `{"region": "eu", "a.b": 1}`,
			want: []Problem{{KindInvalidName, "a.b", `"a.b" is not a valid variable name`}},
		},
		{
			name: "types", values: `{"region": ["s3cr3t"], "count_of": "s3cr3t", "on": 3, "tags": "s3cr3t", "nodes": [{"size": 1}]}`,
			want: []Problem{
				{KindType, "count_of", `variable "count_of" requires type number, but the value has type string: a number is required`},
				{KindType, "nodes", `variable "nodes" requires type list(object({name=string,size=number})), but the value has type list: element 0: attribute "name" is required`},
				{KindType, "on", `variable "on" requires type bool, but the value has type number: bool required, but have number`},
				{KindType, "region", `variable "region" requires type string, but the value has type list: string required, but have tuple`},
				{KindType, "tags", `variable "tags" requires type map(string), but the value has type string: map of string required, but have string`},
			},
		},
		{
			name: "outputs", values: `{"region": "eu"}`, outputs: []string{"cluster_name", "clustername"},
			want: []Problem{{KindUnknownOutput, "clustername", `the module has no output "clustername": did you mean "cluster_name"?`}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			read := Inline(terraform.Module{Content: module, Format: terraform.FormatHCL})
			g.Expect(read.Diagnostics).To(BeEmpty())
			problems := Check(read, fromJSON(t, test.values), test.outputs)
			g.Expect(problems).To(Equal(test.want))
			for _, found := range problems {
				g.Expect(found.Message).NotTo(ContainSubstring("s3cr3t"))
			}
		})
	}
}

func TestFromJSON_rejectsInvalidText(t *testing.T) {
	g := NewWithT(t)
	_, problems := FromJSON(map[string]json.RawMessage{"a": json.RawMessage("\"\xff\""), "b": json.RawMessage("{")})
	g.Expect(problems).To(Equal([]Problem{
		{KindEncoding, "a", `the value of variable "a" is not valid UTF-8`},
		{KindEncoding, "b", `the value of variable "b" is not valid JSON`},
	}))
}

func TestParseVarFile(t *testing.T) {
	g := NewWithT(t)
	values, diagnostics := NewVarFiles().Parse("a.tfvars", []byte("a = \"x\"\nb = [1, { c = null }]\n"), terraform.FormatHCL, nil)
	g.Expect(diagnostics).To(BeEmpty())
	g.Expect(values).To(HaveLen(2))
	values, diagnostics = NewVarFiles().Parse("a.tfvars.json", []byte(`{"a": "${x}", "b": {"c": [true]}}`), terraform.FormatJSON, nil)
	g.Expect(diagnostics).To(BeEmpty())
	g.Expect(values["a"].AsString()).To(Equal("${x}"))

	for content, short := range map[string]string{
		"a = \"x\"\nb = var.s3cr3t\n": "a.tfvars:2: Variables not allowed: ",
		"a = file(\"s3cr3t\")\n":      "a.tfvars:1: Function calls not allowed: ",
		"a = \n":                      "a.tfvars:1: Invalid expression: ",
		"block {\n}\n":                "a.tfvars:1: Unexpected \"block\" block: ",
		"a = \"\xff\"":                "a.tfvars: Invalid variables file: ",
	} {
		_, diagnostics := NewVarFiles().Parse("a.tfvars", []byte(content), terraform.FormatHCL, nil)
		g.Expect(diagnostics.Short()).To(HavePrefix(short))
		g.Expect(diagnostics.Short()).NotTo(ContainSubstring("s3cr3t"))
	}
}
