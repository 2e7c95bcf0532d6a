// Command templates writes the WorkspaceTemplates of templates/ from those of
// templates/source: it replaces the path of a module's directory with the text of the
// module. A module that calls other modules is not inlined: the run downloads it from
// this repository, at the version that replaces RELEASE.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	root := flag.String("root", "..", "The root of the project.")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "templates:", err)
		os.Exit(1)
	}
}

// run writes every template and removes those that no longer have a source.
func run(root string) error {
	sources, err := filepath.Glob(filepath.Join(root, "templates", "source", "*.yaml"))
	if err != nil {
		return fmt.Errorf("finding templates: %w", err)
	}
	made := map[string]bool{}
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			return fmt.Errorf("reading a template: %w", err)
		}
		rendered, err := render(root, string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
		target := filepath.Join(root, "templates", filepath.Base(source))
		if err := os.WriteFile(target, []byte(rendered), 0o644); err != nil {
			return fmt.Errorf("writing a template: %w", err)
		}
		made[target] = true
	}
	return prune(filepath.Join(root, "templates"), made)
}

func prune(dir string, made map[string]bool) error {
	found, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return fmt.Errorf("finding old templates: %w", err)
	}
	for _, path := range found {
		if !made[path] {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("removing an old template: %w", err)
			}
		}
	}
	return nil
}

// module matches the line with the directory of a module.
var module = regexp.MustCompile(`(?m)^( *)module: (modules/\S+)$`)

// remote matches the part of an address with the path of a module of this repository.
var remote = regexp.MustCompile(`//modules/[^?\s]+`)

// release is the version of the modules that runs download.
const release = "v0.1.0"

// render replaces the directory of a module with its text.
func render(root, source string) (string, error) {
	match := module.FindStringSubmatchIndex(source)
	if dir := remote.FindString(source); match == nil && dir != "" {
		if _, err := os.Stat(filepath.Join(root, strings.TrimPrefix(dir, "//"))); err != nil {
			return "", fmt.Errorf("finding the module: %w", err)
		}
		header := "# Generated from templates/source by `make generate`: change that instead.\n"
		return header + strings.ReplaceAll(source, "RELEASE", release), nil
	}
	if match == nil {
		return "", fmt.Errorf("no line such as 'module: modules/network' names the module")
	}
	indent, dir := source[match[2]:match[3]], source[match[4]:match[5]]
	text, err := moduleText(filepath.Join(root, dir))
	if err != nil {
		return "", err
	}
	var block strings.Builder
	block.WriteString(indent + "module: |\n")
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			block.WriteString(indent + "  ")
		}
		block.WriteString(line)
	}
	header := fmt.Sprintf("# Generated from %s and templates/source by `make generate`: change those instead.\n", dir)
	return header + source[:match[0]] + strings.TrimSuffix(block.String(), "\n") + source[match[1]:], nil
}

// moduleText returns a module as one file, with versions and variables first and
// outputs last.
func moduleText(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.tf"))
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("%s contains no module: %w", dir, cmp.Or(err, os.ErrNotExist))
	}
	order := map[string]int{"versions.tf": -3, "variables.tf": -2, "main.tf": -1, "outputs.tf": 1}
	slices.SortStableFunc(files, func(a, b string) int {
		return cmp.Or(cmp.Compare(order[filepath.Base(a)], order[filepath.Base(b)]), cmp.Compare(a, b))
	})
	var texts []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("reading a module: %w", err)
		}
		texts = append(texts, strings.TrimSpace(string(text))+"\n")
	}
	return strings.Join(texts, "\n"), nil
}
