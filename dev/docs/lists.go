package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// overviews are the pages that link to every other page.
var overviews = []string{"README.md", "README.ja.md"}

// targetList is the page that describes the targets of the Makefile.
const targetList = "CONTRIBUTING.md"

// helpedTarget matches a target that make help shows.
var helpedTarget = regexp.MustCompile(`(?m)^([a-z0-9-]+):.*## `)

// listProblems returns a finding for each page of the navigation without a link in an
// overview, and for each target that is not in the list.
func listProblems(root string, pages map[string]*page, nav []string) ([]string, error) {
	var findings []string
	for _, overview := range overviews {
		linked := map[string]bool{}
		for _, l := range pages[overview].links {
			name, _, _ := strings.Cut(l.target, "#")
			linked[name] = true
		}
		for _, name := range nav {
			if name = "docs/" + name; pages[name] != nil && !linked[name] {
				findings = append(findings, fmt.Sprintf("%s: there is no link to %s", overview, name))
			}
		}
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("reading the Makefile: %w", err)
	}
	list, err := os.ReadFile(filepath.Join(root, targetList))
	if err != nil {
		return nil, fmt.Errorf("reading a page: %w", err)
	}
	for _, target := range helpedTarget.FindAllStringSubmatch(string(makefile), -1) {
		if !regexp.MustCompile("(?m)(?:`|^)make " + regexp.QuoteMeta(target[1]) + "(?:[ `]|$)").Match(list) {
			findings = append(findings, fmt.Sprintf("%s: `make %s` is missing", targetList, target[1]))
		}
	}
	return findings, nil
}
