package speculate_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/inspect"
	"github.com/appthrust/capt/internal/terraform/speculate"
	"github.com/appthrust/capt/internal/testenv"
)

// A module is fetched without its providers, which are not available here.
func TestFetch_readsAModuleOfAGitRepository(t *testing.T) {
	g := NewWithT(t)
	tofu, err := testenv.Part("tofu")
	g.Expect(err).NotTo(HaveOccurred())
	repository := t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(repository, name)
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	}
	write("cluster/main.tf", "terraform {\n  required_providers {\n    none = { source = \"example.com/none/none\" }\n  }\n}\nmodule \"x\" {\n  source = \"../x\"\n}\nvariable \"size\" {\n  type = number\n}\n")
	write("x/main.tf", "output \"a\" {\n  value = 1\n}\n")
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main"},
		{"add", "."},
		{"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "a"},
		{"tag", "v1"},
	} {
		out, err := exec.Command("git", append([]string{"-C", repository}, args...)...).CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred(), string(out))
	}
	module := terraform.Module{Source: terraform.SourceRemote, Address: "git::file://" + repository + "//cluster?ref=v1"}
	dir, err := speculate.Fetch(t.Context(), module, speculate.Options{Binary: tofu, Dir: t.TempDir()})
	g.Expect(err).NotTo(HaveOccurred())
	read, err := inspect.Dir(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(read.Variables).To(HaveKey("size"))

	module.Address = "git::file://" + repository + "//cluster?ref=none"
	_, err = speculate.Fetch(t.Context(), module, speculate.Options{Binary: tofu, Dir: t.TempDir()})
	g.Expect(err).To(HaveOccurred())
}
