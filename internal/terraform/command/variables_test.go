package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
)

func TestPlaceVariables(t *testing.T) {
	const module = `
variable "name" { type = string }
variable "tags" {
  type    = map(string)
  default = {}
}
variable "token" {
  type      = string
  sensitive = true
  default   = ""
}
`
	tests := []struct {
		name      string
		files     map[string]string
		variables map[string]string
		fillers   []string
		want      string
		err       string
	}{
		{name: "values", variables: map[string]string{"name": `"x"`, "tags": `{"a":"b"}`}, want: `{"name": "x", "tags": {"a": "b"}}`},
		{name: "a map as text", variables: map[string]string{"name": `"x"`, "tags": `"{ a = \"b\" }"`}, want: `{"name": "x", "tags": {"a": "b"}}`},
		{name: "no values", files: map[string]string{"terraform.tfvars": `name = "x"`}},
		{name: "an undeclared filler", variables: map[string]string{"name": `"x"`, "region": `"eu"`}, fillers: []string{"region"}, want: `{"name": "x"}`},
		{name: "a declared filler", variables: map[string]string{"name": `"x"`}, fillers: []string{"name"}, want: `{"name": "x"}`},
		{name: "a missing value", err: `"name" is required`},
		{name: "an unknown variable", variables: map[string]string{"name": `"x"`, "nam": `"s3cr3t"`}, err: `did you mean "name"?`},
		{name: "a value of another type", variables: map[string]string{"name": `"x"`, "tags": `"s3cr3t"`}, err: `"tags"`},
		{name: "an invalid module", files: map[string]string{"invalid.tf": "variable {"}, err: "invalid.tf:1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			root := t.TempDir()
			path := filepath.Join(root, variablesFile)
			for name, content := range map[string]string{"main.tf": module, variablesFile: `{"name": "of an earlier run"}`} {
				g.Expect(writeFile(filepath.Join(root, name), []byte(content))).To(Succeed())
			}
			for name, content := range tt.files {
				g.Expect(writeFile(filepath.Join(root, name), []byte(content))).To(Succeed())
			}
			request := &terraform.Request{Variables: map[string]json.RawMessage{}, Fillers: tt.fillers}
			for name, value := range tt.variables {
				request.Variables[name] = json.RawMessage(value)
			}

			err := placeVariables(root, request)

			if tt.err != "" {
				g.Expect(err).To(MatchError(And(ContainSubstring(tt.err), Not(ContainSubstring("s3cr3t")))))
				g.Expect(path).NotTo(BeAnExistingFile())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(request.SecretVariables).To(ConsistOf("token"), "sensitive variables of the module are masked")
			if tt.want == "" {
				g.Expect(path).NotTo(BeAnExistingFile())
				return
			}
			content, err := os.ReadFile(path)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(content).To(MatchJSON(tt.want))
			info, err := os.Stat(path)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
		})
	}
}

// Code of the module may have created a file that never ends.
func TestPlaceVariables_readsOnlyFiles(t *testing.T) {
	g := NewWithT(t)
	root := t.TempDir()
	g.Expect(syscall.Mkfifo(filepath.Join(root, "main.tf"), 0o600)).To(Succeed())
	g.Expect(placeVariables(root, &terraform.Request{})).To(MatchError(ContainSubstring("is not a regular file")))
}
