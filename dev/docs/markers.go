package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	// generatedPages is the directory of pages that are written by programs. Only they may
	// have one marker for all blocks.
	generatedPages = "docs/reference/"
	// sameReason repeats the reason of the block before.
	sameReason = "as above"

	markerHelp = "write <!-- run: SCENARIO --> or <!-- not run: REASON --> in the line before it"
	reasonHelp = "name a test as `package TestName` or a `make` target that runs the same commands, or begin with \"needs\" and name what no test has"
)

var (
	needs       = regexp.MustCompile(`^needs \S+`)
	namedTarget = regexp.MustCompile("`make ([a-z0-9-]+)`")
	makeTarget  = regexp.MustCompile(`(?m)^([a-z0-9-]+):`)
)

// markerProblems returns a finding for each block of a page without a marker, each reason
// that nothing can check, and each fence without a language, which may hide commands.
func markerProblems(root string, p *page, targets map[string]bool) ([]string, error) {
	var findings []string
	add := func(line int, format string, args ...any) {
		findings = append(findings, fmt.Sprintf("%s:%d: ", p.path, line)+fmt.Sprintf(format, args...))
	}
	for _, line := range p.unnamed {
		add(line, "the fence has no language: write sh for commands, and text for anything else")
	}
	if p.reason != "" && !strings.HasPrefix(p.path, generatedPages) {
		add(p.reasonLine, "one marker for all blocks is only for generated pages: mark each block")
	}
	previous := ""
	for _, b := range p.blocks {
		reason := b.reason
		if reason == sameReason {
			reason = previous
		}
		previous = reason
		switch {
		case b.run != "":
		case p.reason != "":
		case reason == "":
			add(b.line, "the command block has no marker: %s", markerHelp)
		default:
			problem, err := reasonProblem(root, reason, targets)
			if err != nil {
				return nil, err
			}
			if problem != "" {
				add(b.line, "not run: %s", problem)
			}
		}
	}
	return findings, nil
}

// reasonProblem returns what is wrong with the reason why a block is not run, or "".
func reasonProblem(root, reason string, targets map[string]bool) (string, error) {
	tests, makes := namedTest.FindAllStringSubmatch(reason, -1), namedTarget.FindAllStringSubmatch(reason, -1)
	for _, test := range tests {
		found, err := hasTest(filepath.Join(root, filepath.FromSlash(test[1])), test[2])
		if err != nil {
			return "", err
		}
		if !found {
			return fmt.Sprintf("%s has no %s", test[1], test[2]), nil
		}
	}
	for _, target := range makes {
		if !targets[target[1]] {
			return "the Makefile has no target " + target[1], nil
		}
	}
	if len(tests) == 0 && len(makes) == 0 && !needs.MatchString(reason) {
		return fmt.Sprintf("%q names nothing that can be checked: %s", reason, reasonHelp), nil
	}
	return "", nil
}

// makeTargets returns the targets of the Makefile. A repository without one has none.
func makeTargets(root string) (map[string]bool, error) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("reading the Makefile: %w", err)
	}
	targets := map[string]bool{}
	for _, found := range makeTarget.FindAllStringSubmatch(string(text), -1) {
		targets[found[1]] = true
	}
	return targets, nil
}
