package main

import (
	"path/filepath"
	"strings"
	"testing"
)

const declaring = `variable "name" {
  description = "Name | of it."
  type        = string
}

variable "sizes" {
  description = <<-EOT
    Sizes.
    Second line.
  EOT
  type = map(object({
    min = optional(number, 1)
    of = optional(list(object({
      a = string
    })), [])
  }))
  default = {
    small = { min = 1 }
    big   = {}
  }

  validation {
    condition     = true
    error_message = "sizes must be \"right\"."
  }
}

resource "thing" "this" {
  lifecycle {
    precondition {
      condition     = var.name != ""
      error_message = "Name it."
    }
  }
}

output "id" {
  description = "Id of it."
  value       = thing.this.id
}
`

func TestDeclared_readsInputsOutputsAndRules(t *testing.T) {
	found, err := declared(map[string][]byte{"main.tf": []byte(declaring)})
	if err != nil {
		t.Fatal(err)
	}
	if len(found.inputs) != 2 || found.inputs[0] != (input{"name", "Name | of it.", "string", ""}) || found.inputs[1].description != "Sizes.\nSecond line." {
		t.Errorf("inputs are %q", found.inputs)
	}
	if len(found.outputs) != 1 || found.outputs[0] != (output{"id", "Id of it."}) {
		t.Errorf("outputs are %q", found.outputs)
	}
	want := []rule{{"variable sizes", `sizes must be "right".`}, {"resource thing this", "Name it."}}
	if len(found.rules) != 2 || found.rules[0] != want[0] || found.rules[1] != want[1] {
		t.Errorf("rules are %q, want %q", found.rules, want)
	}
}

func TestDeclared_requiresDescriptions(t *testing.T) {
	for _, text := range []string{`variable "a" {}`, `output "a" { value = 1 }`, `variable "a" { description = var.b }`, `variable "a" {`} {
		if _, err := declared(map[string][]byte{"main.tf": []byte(text)}); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
}

func TestRenewed_writesTheTablesBetweenTheirMarks(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"main.tf": declaring})
	m := module{name: "thing", dir: dir}
	readme := "# thing\n\n<!-- BEGIN inputs: written by dev/modules -write-readmes -->\nold\n<!-- END inputs -->\n\nbetween\n\n" +
		"<!-- BEGIN outputs: written by dev/modules -write-readmes -->\n<!-- END outputs -->\nafter\n"
	fresh, err := renewed(m, []byte(readme))
	if err != nil {
		t.Fatal(err)
	}
	want := "# thing\n\n<!-- BEGIN inputs: written by dev/modules -write-readmes -->\n" +
		"| Name | Description | Type | Default | Required |\n|------|-------------|------|---------|:--------:|\n" +
		"| `name` | Name \\| of it. | `string` |  | yes |\n" +
		"| `sizes` | Sizes.<br>Second line. | `map(object)` | `{ small = { min = 1 }, big = {} }` | no |\n" +
		"\n`sizes`:\n\n```hcl\nmap(object({\n  min = optional(number, 1)\n  of = optional(list(object({\n    a = string\n  })), [])\n}))\n```\n" +
		"<!-- END inputs -->\n\nbetween\n\n<!-- BEGIN outputs: written by dev/modules -write-readmes -->\n" +
		"| Name | Description |\n|------|-------------|\n| `id` | Id of it. |\n<!-- END outputs -->\nafter\n"
	if string(fresh) != want {
		t.Errorf("got\n%s\nwant\n%s", fresh, want)
	}
	again, err := renewed(m, fresh)
	if err != nil || string(again) != want {
		t.Errorf("a second time it is\n%s (%v)", again, err)
	}
}

func TestCheckReadme_reportsOldTablesAndMissingMarkers(t *testing.T) {
	dir := t.TempDir()
	m := module{name: "thing", dir: dir}
	write(t, dir, map[string]string{"main.tf": declaring})
	if err := checkReadme(m); err == nil {
		t.Error("a module without a README was accepted")
	}
	if err := checkReadme(module{name: "group/thing", dir: dir}); err != nil {
		t.Errorf("a module of a group needs a README: %v", err)
	}
	write(t, dir, map[string]string{"README.md": "# thing\n"})
	if err := checkReadme(m); err == nil || !strings.Contains(err.Error(), "BEGIN") {
		t.Errorf("marks are not missed: %v", err)
	}
	marks := "<!-- BEGIN inputs: written by dev/modules -write-readmes -->\n<!-- END inputs -->\n<!-- BEGIN outputs: written by dev/modules -write-readmes -->\n<!-- END outputs -->\n"
	write(t, dir, map[string]string{"README.md": marks})
	if err := checkReadme(m); err == nil || !strings.Contains(err.Error(), "-write-readmes") {
		t.Errorf("old tables are not seen: %v", err)
	}
	var out strings.Builder
	if err := writeReadmes(&out, []module{m}); err != nil || out.String() != "wrote "+filepath.Join(dir, "README.md")+"\n" {
		t.Errorf("wrote %q (%v)", out.String(), err)
	}
	if err := checkReadme(m); err != nil {
		t.Errorf("what was written is not current: %v", err)
	}
}

func TestShort(t *testing.T) {
	tests := map[string]string{
		"string":                              "string",
		"object({ a = string })":              "object({ a = string })",
		"object({\n  a = string\n})":          "object",
		"list(object({\n  a = string\n}))":    "list(object)",
		"map(list(object({\n  a = any\n})))":  "map(list(object))",
		"map(object({\n  a = object({})\n}))": "map(object)",
	}
	for kind, want := range tests {
		if got := short(kind); got != want {
			t.Errorf("%q is %q, want %q", kind, got, want)
		}
	}
}

func TestOneLine(t *testing.T) {
	tests := map[string]string{
		`"a"`:                      `"a"`,
		"{\n  a = 1\n  b = 2\n}":   "{ a = 1, b = 2 }",
		"[\n  \"a\",\n  \"b\",\n]": `[ "a", "b" ]`,
		"{\n  a = {\n    b = 1\n  }\n  c   = 2\n}": "{ a = { b = 1 }, c = 2 }",
	}
	for text, want := range tests {
		if got := oneLine(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
