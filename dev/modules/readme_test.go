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

func TestDeclared_requiresDescriptions(t *testing.T) {
	for _, text := range []string{`variable "a" {}`, `output "a" { value = 1 }`, `variable "a" { description = var.b }`, `variable "a" {`} {
		if _, err := declared(map[string][]byte{"main.tf": []byte(text)}); err == nil {
			t.Errorf("%s was accepted", text)
		}
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
