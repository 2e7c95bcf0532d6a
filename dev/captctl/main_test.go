package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	. "github.com/onsi/gomega"
)

// newTree returns a repository whose captctl prints its commit and date.
func newTree(t *testing.T) string {
	t.Helper()
	g := NewWithT(t)
	root := t.TempDir()
	for path, text := range map[string]string{
		"go.mod":                              "module github.com/appthrust/capt\n\ngo 1.26\n",
		"LICENSE":                             "licence\n",
		"internal/version/VERSION":            "v0.2.0\n",
		"internal/web/assets/dist/index.html": "<!doctype html>\n",
		"internal/version/version.go":         "package version\n\nvar Commit, Date string\n",
		"cmd/captctl/main.go":                 "package main\n\nimport (\n\t\"fmt\"\n\n\t\"github.com/appthrust/capt/internal/version\"\n)\n\nfunc main() { fmt.Println(version.Commit, version.Date) }\n",
	} {
		path = filepath.Join(root, path)
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "x", "--date", "2026-01-02T03:04:05Z"}} {
		cmd := exec.Command("git", append([]string{"-C", root}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
		out, err := cmd.CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred(), string(out))
	}
	return root
}

func TestRun_packsAProgramThatKnowsItsCommit(t *testing.T) {
	g := NewWithT(t)
	root := newTree(t)
	var archives [][]byte
	out := t.TempDir()
	name := filepath.Join(out, "captctl_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz")
	for range 2 {
		g.Expect(run(t.Context(), []string{"-root", root, "-out", out, "-platforms", runtime.GOOS + "/" + runtime.GOARCH})).To(Succeed())
		archive, err := os.ReadFile(name)
		g.Expect(err).NotTo(HaveOccurred())
		archives = append(archives, archive)
	}
	g.Expect(archives[0]).To(Equal(archives[1]), "two builds differ")
	text, err := exec.Command("tar", "-xzf", name, "-C", out).CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(text))
	printed, err := exec.Command(filepath.Join(out, "kubectl-capt")).Output()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(printed)).To(MatchRegexp(`^[0-9a-f]{40} 2026-01-02T03:04:05Z\n$`))
	g.Expect(filepath.Join(out, "LICENSE")).To(BeAnExistingFile())
}

// The build of a checkout must not take the time of a release.
func TestPlatformsOf_aCheckoutIsThisMachine(t *testing.T) {
	g := NewWithT(t)
	g.Expect(platformsOf("v0.2.0-dev")).To(Equal(runtime.GOOS + "/" + runtime.GOARCH))
	g.Expect(platformsOf("v0.2.0-rc.1")).To(And(ContainSubstring("darwin/arm64"), ContainSubstring("linux/amd64")))
}

func TestRun_refusesAnIncompletePlatform(t *testing.T) {
	g := NewWithT(t)
	g.Expect(run(t.Context(), []string{"-root", newTree(t), "-out", t.TempDir(), "-platforms", "linux"})).To(MatchError(ContainSubstring("OS/ARCHITECTURE")))
}
