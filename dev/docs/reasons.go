package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// reasonConstant matches the declaration of a reason of conditions.
var reasonConstant = regexp.MustCompile(`(?m)^\s*(?:const )?\w+Reason\s*=\s*"(\w+)"`)

// reasonProblems returns a finding for each reason of a condition in api/ that no page of
// docs/ names. The generated reference does not count: it explains no reason.
func reasonProblems(root string) ([]string, error) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return nil, fmt.Errorf("listing pages: %w", err)
	}
	var text strings.Builder
	for _, name := range pages {
		page, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading a page: %w", err)
		}
		text.Write(page)
	}
	var findings []string
	err = filepath.WalkDir(filepath.Join(root, "api"), func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, reason := range reasonConstant.FindAllSubmatch(source, -1) {
			if !regexp.MustCompile("`" + string(reason[1]) + "\\b").MatchString(text.String()) {
				relative, _ := filepath.Rel(root, name)
				findings = append(findings, fmt.Sprintf("%s: no page explains the reason %s: add it to docs/troubleshooting.md", filepath.ToSlash(relative), reason[1]))
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading reasons: %w", err)
	}
	return findings, nil
}
