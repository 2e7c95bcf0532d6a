package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/binary"
)

func TestPrepare_keepsItsBackend(t *testing.T) {
	const backend = "terraform {\n  backend \"local\" {\n    path = \"elsewhere.tfstate\"\n  }\n}\n"
	tests := map[string]struct {
		name, content string
		line          int
	}{
		"an override file that is merged last":        {name: "zzz_override.tf", content: backend, line: 2},
		"the same with OpenTofu's extension":          {name: "zzz_override.tofu", content: backend, line: 2},
		"the JSON syntax":                             {name: "zzz_override.tf.json", content: `{"terraform": {"backend": {"local": {"path": "elsewhere.tfstate"}}}}`, line: 1},
		"the name of CAPT's file in JSON":             {name: "zz_capt_override.tf.json", content: `{}`},
		"OpenTofu's form of CAPT's file":              {name: "zz_capt_override.tofu", content: ""},
		"a file that is nested too deeply":            {name: "zzz_override.tf", content: "locals {\n  a = " + strings.Repeat("[", 100_000) + "\n}\n"},
		"a cloud block":                               {name: "zzz_override.tf", content: "terraform {\n  cloud {\n    organization = \"x\"\n  }\n}\n", line: 2},
		"a block that is not the first of its file":   {name: "zzz_override.tf", content: "terraform {\n  required_version = \">= 1\"\n}\n" + backend, line: 5},
		"a name with a byte above those of letters":   {name: "~_override.tf", content: backend, line: 2},
		"a name that is not ASCII":                    {name: "\u00ff_override.tf", content: backend, line: 2},
		"an override file with a prefix of that name": {name: "zz_capt_override2_override.tf", content: backend, line: 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w, _ := workdir(t, scriptedTool(t, "exit 0\n"))
			source := t.TempDir()
			g.Expect(os.WriteFile(filepath.Join(source, "main.tf"), []byte("output \"a\" { value = 1 }\n"), 0o600)).To(Succeed())
			g.Expect(os.WriteFile(filepath.Join(source, tt.name), []byte(tt.content), 0o600)).To(Succeed())
			err := w.writeBackend(source, terraform.Backend{Type: terraform.BackendKubernetes})
			failure := AsFailure(err)
			g.Expect(failure).NotTo(BeNil())
			g.Expect(failure.Class).To(Equal(terraform.ClassTerminal))
			g.Expect(failure.Diagnostics).To(HaveLen(1))
			g.Expect(failure.Diagnostics[0].File).To(Equal(tt.name))
			g.Expect(failure.Diagnostics[0].Line).To(Equal(tt.line))
			g.Expect(filepath.Join(source, backendRecord)).NotTo(BeAnExistingFile(), "nothing is written")
		})
	}
}

func TestPrepare_allowsOtherOverrideFiles(t *testing.T) {
	eachTool(t, func(t *testing.T, tool *binary.Tool) {
		g := NewWithT(t)
		w, _ := workdir(t, tool)
		request := inline("variable \"a\" { default = 1 }\noutput \"a\" { value = var.a }\n")
		request.Module.Files = map[string]string{
			// It is merged before CAPT's, which wins.
			"backend_override.tf": "terraform {\n  cloud {\n    organization = \"x\"\n    workspaces {\n      name = \"y\"\n    }\n  }\n}\n",
			"zzz_override.tf":     "terraform {\n  required_version = \">= 1\"\n}\nvariable \"a\" { default = 2 }\n",
		}
		_, applied := apply(t, w, request)
		g.Expect(string(applied.Outputs["a"].Value)).To(Equal("2"))
		g.Expect(filepath.Join(w.Dir, localState)).To(BeAnExistingFile())
	})
}

func TestPrepare_refusesAModuleThatReplacesTheBackend(t *testing.T) {
	eachTool(t, func(t *testing.T, tool *binary.Tool) {
		g := NewWithT(t)
		w, _ := workdir(t, tool)
		request := inline("output \"a\" { value = 1 }\n")
		elsewhere := filepath.Join(t.TempDir(), "elsewhere.tfstate")
		request.Module.Files = map[string]string{"zzz_override.tf": "terraform {\n  backend \"local\" {\n    path = \"" + elsewhere + "\"\n  }\n}\n"}
		_, err := Prepare(t.Context(), w, request)
		g.Expect(err).To(MatchError(ContainSubstring("zzz_override.tf:2: Module overrides the backend")))
		g.Expect(elsewhere).NotTo(BeAnExistingFile())
	})
}

func TestCheckOverrides_doesNotReadDevices(t *testing.T) {
	for _, target := range []string{"/dev/zero", "/dev/tty"} {
		g := NewWithT(t)
		root := t.TempDir()
		g.Expect(os.Symlink(target, filepath.Join(root, "zzz_override.tf"))).To(Succeed())
		g.Expect(checkOverrides(root)).To(MatchError(ContainSubstring("It is not a file")))
	}
}
