package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckLanguage_suggestsAReplacement(t *testing.T) {
	for text, want := range map[string]string{
		"// ready tells whether it is.":      `a.go:2: replace "tells whether": write "reports whether"`,
		"Nobody  is there":                   `a.go:2: replace "Nobody": write name the actor`,
		"The cluster cannot be asked: x":     `a.go:2: replace "cannot be asked": write "is unreachable"`,
		"// It is no version of Kubernetes":  `a.go:2: replace "It is no version": write "is not a …"`,
		"// isReady reports whether it is.":  "",
		"recommended, amend, http.NoBody":    "",
		"there is no version":                "",
		"// It is no\n// longer there.":      "",
		"// It cannot\n\t// be asked.":       `a.go:2: replace "cannot be asked": write "is unreachable"`,
		"# The user looks\n# at it.":         `a.go:2: replace "looks at": write "observe", "read" or "check"`,
		"// It looks\n\nat it":               "",
		"A text that is no YAML is rejected": `a.go:2: replace "that is no YAML": write "is not a …"`,
		"takes the finalizer away":           `a.go:2: replace "takes the finalizer away": write "remove"`,
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
	for _, name := range []string{"a.md", "README.ja.md", "b.png", "c.tftest.hcl", "untracked.md"} {
		write(t, filepath.Join(root, name), "nobody\n")
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "a.md", "README.ja.md", "b.png", "c.tftest.hcl"}} {
		if out, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	err := verifyLanguage(root)
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "a.md:1:") || !strings.HasPrefix(lines[1], "c.tftest.hcl:1:") {
		t.Fatal(err)
	}
}
