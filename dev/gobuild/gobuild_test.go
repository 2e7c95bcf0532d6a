package gobuild

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// The settings of a machine must not change what is built on it.
func TestEnvironment_ignoresTheMachine(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/m\n\ngo 1.26\n"), 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o600)).To(Succeed())
	build := func(goarch string) []byte {
		out := filepath.Join(t.TempDir(), "program")
		cmd := exec.Command("go", "build", "-trimpath", "-o", out, ".")
		cmd.Dir, cmd.Env = dir, Environment("linux", goarch)
		output, err := cmd.CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred(), string(output))
		program, err := os.ReadFile(out)
		g.Expect(err).NotTo(HaveOccurred())
		return program
	}
	plain := build("amd64")
	t.Setenv("GOAMD64", "v3")
	t.Setenv("GOEXPERIMENT", "jsonv2")
	g.Expect(build("amd64")).To(Equal(plain))
}

// A release has the page of captctl ui.
func TestCheckPage_releasesNeedThePage(t *testing.T) {
	g := NewWithT(t)
	root := t.TempDir()
	var warnings bytes.Buffer
	g.Expect(CheckPage(root, "v1.2.3", &warnings)).To(MatchError(ContainSubstring("run make ui")))
	g.Expect(warnings.String()).To(BeEmpty())
	g.Expect(CheckPage(root, "v1.2.3-dev", &warnings)).To(Succeed())
	g.Expect(warnings.String()).To(ContainSubstring("run make ui"))
	g.Expect(os.MkdirAll(filepath.Dir(filepath.Join(root, page)), 0o755)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(root, page), nil, 0o600)).To(Succeed())
	g.Expect(CheckPage(root, "v1.2.3", &warnings)).To(Succeed())
}
