package revision

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestCheckVersion(t *testing.T) {
	const form = "is not a semantic version"
	for text, want := range map[string]string{
		"0.2.0": "", "1.0.0-rc.1": "", "10.20.30": "", "1.0.0-alpha.1.beta-2": "",
		"": "VERSION is missing", "v0.2.0": "write VERSION=0.2.0", "0.2": form, "latest": form, "1.2.3+build": form, "01.2.3": form, "0.2.0 ": form,
		"0.1.0\n": form, "0.1.0; rm": form, "0.1.0-rc.": form, "0.1.0-01.1": form,
	} {
		err := CheckVersion(text)
		if want == "" {
			NewWithT(t).Expect(err).NotTo(HaveOccurred(), text)
			continue
		}
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(want)), text)
	}
}

func TestRequireClean(t *testing.T) {
	g := NewWithT(t)
	root := t.TempDir()
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-C", root, "-c", "user.name=x", "-c", "user.email=x@y"}, args...)...)
		out, err := cmd.CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred(), string(out))
	}
	write := func(name string) { g.Expect(os.WriteFile(filepath.Join(root, name), nil, 0o600)).To(Succeed()) }
	git("init", "-q")
	write("old name")
	git("add", ".")
	git("commit", "-qm", "x")
	g.Expect(RequireClean(t.Context(), root)).To(Succeed())

	write("näw")
	g.Expect(RequireClean(t.Context(), root)).To(MatchError(ContainSubstring("not committed (näw)")))
	g.Expect(RequireClean(t.Context(), root, "näw")).To(Succeed())
	git("mv", "old name", "new name")
	g.Expect(RequireClean(t.Context(), root, "näw")).To(MatchError(ContainSubstring("new name, old name")))
	for _, name := range []string{"1", "2", "3", "4"} {
		write(name)
	}
	g.Expect(RequireClean(t.Context(), root)).To(MatchError(ContainSubstring("and 2 more")))
}
