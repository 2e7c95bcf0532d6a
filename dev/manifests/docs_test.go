package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	block     = regexp.MustCompile("(?ms)^```(sh|yaml)\n(.*?)^```")
	asset     = regexp.MustCompile(`(?:https://github\.com/appthrust/capt/releases/(?:download/v[^/ ]+|latest)|dist)/([a-z.-]+\.yaml)`)
	makeCall  = regexp.MustCompile(`(?m)^make ([a-z-]+)`)
	chartFlag = regexp.MustCompile(`--set ([a-zA-Z]+)`)
)

// docs/install.md names only files that a release has, targets of the Makefile and
// values of the chart.
func TestInstallPage_namesWhatExists(t *testing.T) {
	page := readFile(t, "../../docs/install.md")
	makefile, values := readFile(t, "../../Makefile"), readFile(t, "../../charts/capt/values.yaml")
	files := built(t, first)
	blocks := block.FindAllStringSubmatch(page, -1)
	if len(blocks) < 10 {
		t.Fatalf("found only %d blocks", len(blocks))
	}
	named := map[string]bool{}
	for _, match := range asset.FindAllStringSubmatch(page, -1) {
		named[match[1]] = true
		if len(files[match[1]]) == 0 {
			t.Errorf("a release has no %s", match[1])
		}
	}
	for _, p := range providers {
		if !named[p.name+"-components.yaml"] {
			t.Errorf("the page does not install the %s provider", p.name)
		}
	}
	for _, b := range blocks {
		for _, call := range makeCall.FindAllStringSubmatch(b[2], -1) {
			if !strings.Contains(makefile, "\n"+call[1]+":") {
				t.Errorf("the Makefile has no target %s", call[1])
			}
		}
	}
	for _, flag := range chartFlag.FindAllStringSubmatch(page, -1) {
		if !strings.Contains(values, "\n"+flag[1]+":") {
			t.Errorf("the chart has no value %s", flag[1])
		}
	}
	// The variables of the page are those of the components.
	for _, variable := range regexp.MustCompile(`\$\{(CAPT_[A-Z_]+):=`).FindAllStringSubmatch(string(files["infrastructure-components.yaml"]), -1) {
		if !strings.Contains(page, "`"+variable[1]+"`") {
			t.Errorf("the page does not explain %s", variable[1])
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
