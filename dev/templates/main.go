// Command templates makes the WorkspaceTemplates of templates/ from those of
// templates/source, whose module is the path of a directory, by putting the
// module's text in its place. A module that is made of others is fetched from
// this repository by the run, at the version that RELEASE stands for.
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

// run makes every template and removes those that have no source any more.
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

// module is the line that names the directory of a module.
var module = regexp.MustCompile(`(?m)^( *)module: (modules/\S+)$`)

// remote is the part of an address that names a module of this repository.
var remote = regexp.MustCompile(`//modules/[^?\s]+`)

// release is the version whose modules remote templates fetch.
const release = "v0.1.0"

// render puts the module's text in the place of its directory.
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

// moduleText is a module as one file: versions and variables first, outputs
// last, as one reads it.
func moduleText(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.tf"))
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("%s holds no module: %w", dir, cmp.Or(err, os.ErrNotExist))
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
