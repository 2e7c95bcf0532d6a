package validate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/cli/validate"
)

// A remote module is checked like an inline one if its directory is given.
func TestCheck_remoteModuleOfADirectory(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"root/main.tf":      "module \"cluster\" {\n  source = \"../cluster\"\n  public = var.public\n  cidrs  = var.cidrs\n}\n",
		"root/variables.tf": "variable \"public\" {\n  type = bool\n}\nvariable \"cidrs\" {\n  type    = list(string)\n  default = null\n}\n",
	} {
		path := filepath.Join(dir, name)
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
	}
	const address = "git::https://example.com/eks.git//root?ref=v1"
	template := "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: WorkspaceTemplate\nmetadata: {name: eks}\nspec:\n  template:\n    spec:\n      forProvider:\n        source: Remote\n        module: " + address + "\n---\n"
	workspace := func(variables string) string {
		return template + "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: WorkspaceTemplateApply\nmetadata: {name: demo}\nspec:\n  templateRef: {name: eks}\n  variables: " + variables + "\n"
	}
	module, err := validate.ReadModule(filepath.Join(dir, "root"))
	g.Expect(err).NotTo(HaveOccurred())
	options := validate.Options{Modules: map[string]validate.LocalModule{address: module}}
	g.Expect(check(t, workspace(`{public: true, cidrs: [192.0.2.0/24]}`), options)).To(BeEmpty())
	g.Expect(check(t, workspace(`{public: true, cdirs: []}`), options)).To(ContainElement(HaveField("Message", ContainSubstring(`did you mean "cidrs"?`))))
	g.Expect(check(t, workspace(`{public: true}`), validate.Options{})).To(HaveExactElements(HaveField("Message", ContainSubstring("--module"))))

	// A source of Flux has its kind and name instead of an address.
	flux := func(variables string) string {
		return strings.ReplaceAll(workspace(variables), "source: Remote\n        module: "+address, "source: Flux\n        sourceRef: {kind: GitRepository, name: infra}\n        entrypoint: root")
	}
	options.Modules = map[string]validate.LocalModule{"GitRepository/infra": module}
	g.Expect(check(t, flux(`{public: true, cidrs: [192.0.2.0/24]}`), options)).To(BeEmpty())
	g.Expect(check(t, flux(`{public: true, cdirs: []}`), options)).To(ContainElement(HaveField("Message", ContainSubstring(`did you mean "cidrs"?`))))
	g.Expect(check(t, flux(`{public: true}`), validate.Options{})).To(HaveExactElements(HaveField("Message", ContainSubstring("--module"))))

	_, err = validate.ReadModule(t.TempDir())
	g.Expect(err).To(MatchError(ContainSubstring("has no files *.tf")))
}
