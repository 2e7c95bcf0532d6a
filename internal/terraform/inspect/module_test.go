package inspect

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/zclconf/go-cty/cty"

	"github.com/appthrust/capt/internal/terraform"
)

const sample = `
terraform {
  required_providers {
    aws = {
      source                = "hashicorp/aws"
      version               = "~> 6.0"
      configuration_aliases = [aws.east]
    }
    old = ">= 1.0"
  }
}
variable "name" {
  type        = string
  description = "The name."
}
variable "untyped" {}
variable "secret" {
  type      = string
  default   = null
  sensitive = true
}
variable "nodes" {
  type = list(object({
    name = string
    size = optional(number, 2)
  }))
  default  = [{ name = "a" }]
  nullable = false
}
variable "legacy" { type = "map" }
variable "protected" {
  type    = bool
  default = "true"
}
output "name" { value = var.name }
output "token" {
  value     = var.secret
  sensitive = true
}
`

func TestInline_readsDeclarations(t *testing.T) {
	g := NewWithT(t)
	module := Inline(terraform.Module{Content: sample, Format: terraform.FormatHCL})
	g.Expect(module.Diagnostics).To(BeEmpty())
	g.Expect(module.Variables).To(HaveLen(6))

	name := module.Variables["name"]
	g.Expect(name.Type).To(Equal(cty.String))
	g.Expect(name.Required).To(BeTrue())
	g.Expect(name.TypeOmitted).To(BeFalse())
	g.Expect(name.Description).To(Equal("The name."))
	g.Expect(name.File).To(Equal("main.tf"))
	g.Expect(name.Line).To(Equal(12))
	g.Expect(module.Variables["untyped"].TypeOmitted).To(BeTrue())
	g.Expect(module.Variables["secret"].Sensitive).To(BeTrue())
	g.Expect(module.Variables["secret"].Required).To(BeFalse())
	nodes := module.Variables["nodes"]
	g.Expect(nodes.Nullable).To(BeFalse())
	g.Expect(nodes.Default.AsValueSlice()[0]).To(Equal(cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal("a")})))
	g.Expect(nodes.Type.ElementType().AttributeOptional("size")).To(BeTrue())
	g.Expect(module.Variables["legacy"].Type).To(Equal(cty.Map(cty.DynamicPseudoType)))

	g.Expect(module.Variables["protected"].Default).To(Equal(cty.True))
	g.Expect(module.Outputs["name"].Sensitive).To(BeFalse())
	g.Expect(module.Outputs["token"].Sensitive).To(BeTrue())
	g.Expect(module.Providers).To(Equal(map[string]Provider{
		"aws": {Source: "hashicorp/aws", Version: "~> 6.0", Aliases: true},
		"old": {Version: ">= 1.0"},
	}))
}

func TestInline_readsJSON(t *testing.T) {
	g := NewWithT(t)
	module := Inline(terraform.Module{Content: `{
  "terraform": {"required_providers": {"aws": {"source": "hashicorp/aws", "version": "~> 6.0"}}},
  "variable": {"name": {"type": "string"}, "list": {"type": "list(number)", "default": [1]}, "x": {"default": "${literal}"}},
  "output": {"o": {"value": "${var.name}", "sensitive": true}}
}`, Format: terraform.FormatJSON})
	g.Expect(module.Diagnostics).To(BeEmpty())
	g.Expect(module.Variables["name"].Required).To(BeTrue())
	g.Expect(module.Variables["list"].Type).To(Equal(cty.List(cty.Number)))
	g.Expect(module.Variables["x"].Default).To(Equal(cty.StringVal("${literal}")))
	g.Expect(module.Outputs["o"].Sensitive).To(BeTrue())
	g.Expect(module.Providers["aws"].Source).To(Equal("hashicorp/aws"))
}

func TestFiles_readsTheFilesThatTheToolLoads(t *testing.T) {
	g := NewWithT(t)
	module := Files(map[string][]byte{
		"main.tf":            []byte(`variable "a" {}`),
		"main.tofu":          []byte("variable \"b\" {}\nvariable \"c\" {}"),
		"a.x_override.tf":    []byte("variable \"b\" {\n  default = 1\n}"),
		"extra.tf.json":      []byte(`{"output": {"o": {"value": 1}}}`),
		"modules/x/main.tf":  []byte(`variable "of_another_module" {}`),
		".hidden.tf":         []byte(`variable "hidden" {}`),
		"terraform.tfvars":   []byte(`c = 1`),
		"x.auto.tfvars.json": []byte(`{"d": 1}`),
		"README.md":          []byte("# not configuration"),
	})
	g.Expect(module.Diagnostics).To(BeEmpty())
	g.Expect(module.Variables).To(And(HaveLen(2), HaveKey("b"), HaveKey("c")))
	g.Expect(module.Variables["b"].Required).To(BeFalse())
	g.Expect(module.Outputs).To(HaveKey("o"))
	g.Expect(module.Provided).To(Equal(map[string]bool{"c": true, "d": true}))
	g.Expect(Check(module, nil, nil)).To(BeEmpty())
}

func TestInline_reportsErrors(t *testing.T) {
	tests := []struct {
		name, content string
		format        terraform.Format
		short         string
	}{
		{"syntax", "variable \"a\" {\n  type = \n}\n", terraform.FormatHCL, "main.tf:2: Invalid expression: "},
		{"type", "variable \"a\" {\n  type = strnig\n}\n", terraform.FormatHCL, "main.tf:2: Invalid type specification: "},
		{"default", "variable \"a\" {\n  type    = number\n  default = \"x\"\n}\n", terraform.FormatHCL, "main.tf:3: Invalid default value for variable: "},
		{"duplicate", "variable \"a\" {}\nvariable \"a\" {}\n", terraform.FormatHCL, "main.tf:2: Duplicate variable declaration: "},
		{"JSON", "{\n  \"variable\": [\n}", terraform.FormatJSON, "main.tf.json:3: "},
		{"not UTF-8", "variable \"a\" { description = \"\xff\" }", terraform.FormatHCL, "main.tf:1: "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			module := Inline(terraform.Module{Content: test.content, Format: test.format})
			g.Expect(module.Diagnostics.HasErrors()).To(BeTrue())
			g.Expect(module.Diagnostics.Short()).To(HavePrefix(test.short))
		})
	}
}

func TestDir_readsTheModule(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(dir, "a.tf"), []byte(`variable "a" {}`), 0o600)).To(Succeed())
	module, err := Dir(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(module.Variables).To(HaveKey("a"))
	_, err = Dir(filepath.Join(dir, "missing"))
	g.Expect(err).To(MatchError(os.ErrNotExist))
}
