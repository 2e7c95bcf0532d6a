package inspect_test

import (
	"testing"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/inspect"
)

// The manager reads the inline modules of templates.
func FuzzInspect(f *testing.F) {
	for _, seed := range []string{
		"", `variable "a" { type = object({ b = optional(string, "c") }) }`, `output "a" { value = var.b }`, `terraform { backend "s3" {} }`,
		`{"variable": {"a": {"type": "string"}}}`, `a = [`,
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(_ *testing.T, content string, isJSON bool) {
		module := terraform.Module{Content: content}
		if isJSON {
			module.Format = terraform.FormatJSON
		}
		read := inspect.Inline(module)
		inspect.Check(read, inspect.Values{}, []string{"a"})
	})
}

// Users write variable files.
func FuzzVarFile(f *testing.F) {
	for _, seed := range []string{"", `a = "b"`, `a = { b = [1, "${X}"] }`, `{"a": [1, null]}`, `a = b()`, `a = <<EOT`} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(_ *testing.T, content string, isJSON bool) {
		format := terraform.FormatHCL
		if isJSON {
			format = terraform.FormatJSON
		}
		inspect.NewVarFiles().Parse("vars", []byte(content), format, map[string]string{"X": "y"})
	})
}
