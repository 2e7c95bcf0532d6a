package main

import (
	"fmt"
	"strings"
)

// translationProblems returns a finding for each Japanese page whose commands are not those of
// the English page beside it, which tests run.
func translationProblems(pages map[string]*page) []string {
	var findings []string
	for name, translated := range pages {
		base, is := strings.CutSuffix(name, ".ja.md")
		if !is {
			continue
		}
		original := pages[base+".md"]
		if original == nil {
			findings = append(findings, fmt.Sprintf("%s: there is no %s.md", name, base))
			continue
		}
		if len(translated.blocks) != len(original.blocks) {
			findings = append(findings, fmt.Sprintf("%s has %d blocks of commands, and %s has %d", name, len(translated.blocks), original.path, len(original.blocks)))
			continue
		}
		for i, b := range translated.blocks {
			if b.text != original.blocks[i].text {
				findings = append(findings, fmt.Sprintf("%s:%d: the commands differ from %s:%d", name, b.line, original.path, original.blocks[i].line))
			}
		}
	}
	return findings
}
