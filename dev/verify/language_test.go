package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckLanguage_suggestsAReplacement(t *testing.T) {
	for text, want := range map[string]string{
		"// ready tells whether it is.":     `a.go:2: replace "tells whether": write "reports whether"`,
		"Nobody  is there":                  `a.go:2: replace "Nobody": write name the actor`,
		"The cluster cannot be asked: x":    `a.go:2: replace "cannot be asked": write "is unreachable"`,
		"// It is no version of Kubernetes": `a.go:2: replace "It is no version": write "is not a …"`,
		"// isReady reports whether it is.": "",
		"recommended, amend, http.NoBody":   "",
		"there is no version":               "",
	} {
		errs := checkLanguage("a.go", []byte("\n"+text+"\n"))
		switch {
		case want == "" && len(errs) > 0:
			t.Errorf("%q: %v", text, errs)
		case want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), want)):
			t.Errorf("%q: %v, want %q", text, errs, want)
		}
	}
}

func TestVerifyLanguage_readsOnlyTrackedFiles(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a.md", "README.ja.md", "b.png", "untracked.md"} {
		write(t, filepath.Join(root, name), "nobody\n")
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "a.md", "README.ja.md", "b.png"}} {
		if out, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	err := verifyLanguage(root)
	if err == nil || !strings.HasPrefix(err.Error(), "a.md:1:") || strings.Contains(err.Error(), "\n") {
		t.Fatal(err)
	}
}
