// Command templates writes the WorkspaceTemplates of templates/ from the files *.yaml.in of
// templates/source, which no tool takes for manifests: it replaces the path of a module's
// directory with the text of the module, and adds the modules that it calls, and files of
// templates/source that are named after it, with what only a root module can have. So a template
// and the manager are always of the same version, and a run downloads no module.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
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
	sources, err := filepath.Glob(filepath.Join(root, "templates", "source", "*.yaml.in"))
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
		target := filepath.Join(root, "templates", strings.TrimSuffix(filepath.Base(source), ".in"))
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

// module matches the line with the directory of a module, and further files.
var module = regexp.MustCompile(`(?m)^( *)module: (modules/\S+)((?: \+ \S+)*)$`)

// render replaces the directory of a module with its text.
func render(root, source string) (string, error) {
	match := module.FindStringSubmatchIndex(source)
	if match == nil {
		return "", fmt.Errorf("no line such as 'module: modules/network' names the module")
	}
	indent, dir := source[match[2]:match[3]], source[match[4]:match[5]]
	text, err := moduleText(filepath.Join(root, dir))
	if err != nil {
		return "", err
	}
	for name := range strings.FieldsSeq(strings.ReplaceAll(source[match[6]:match[7]], "+", "")) {
		further, err := os.ReadFile(filepath.Join(root, "templates", "source", name))
		if err != nil {
			return "", fmt.Errorf("reading a file of a root module: %w", err)
		}
		text += "\n" + string(further)
	}
	called, err := calledModules(filepath.Join(root, dir))
	if err != nil {
		return "", err
	}
	var block strings.Builder
	block.WriteString(indent + "module: |\n")
	// The called modules are in a directory of the root module, and beside each other.
	writeBlock(&block, indent+"  ", call.ReplaceAllString(text, `${1}"./modules/${2}"`))
	if len(called) > 0 {
		block.WriteString(indent + "files:\n")
	}
	for _, path := range called {
		if text, err = moduleText(path); err != nil {
			return "", err
		}
		fmt.Fprintf(&block, "%s  modules/%s/main.tf: |\n", indent, filepath.Base(path))
		writeBlock(&block, indent+"    ", text)
	}
	header := fmt.Sprintf("# Generated from %s and templates/source by `make generate`: change those instead.\n", dir)
	rendered := header + source[:match[0]] + strings.TrimSuffix(block.String(), "\n") + source[match[1]:]
	encoded, err := yaml.YAMLToJSON([]byte(rendered))
	if err != nil {
		return "", fmt.Errorf("encoding the template: %w", err)
	}
	if len(encoded) > maxTemplate {
		return "", fmt.Errorf("the template has %d bytes as JSON, and kubectl apply accepts %d: make its module smaller", len(encoded), maxTemplate)
	}
	return rendered, nil
}

// maxTemplate is the limit of all annotations, one of which contains the object that
// kubectl apply applied, as JSON, with room for other annotations.
const maxTemplate = 262144 - 8192

// writeBlock writes an indented text of several lines.
func writeBlock(block *strings.Builder, indent, text string) {
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			block.WriteString(indent)
		}
		block.WriteString(line)
	}
}

// call matches the source of a module that is beside the one that calls it.
var call = regexp.MustCompile(`(?m)^(\s*source\s*=\s*)"\.\./([^/"]+)"`)

// calledModules returns the directories of all modules that a module calls, directly or
// not, sorted.
func calledModules(dir string) ([]string, error) {
	found := map[string]bool{}
	for next := []string{dir}; len(next) > 0; next = next[1:] {
		text, err := moduleText(next[0])
		if err != nil {
			return nil, err
		}
		for _, match := range call.FindAllStringSubmatch(text, -1) {
			path := filepath.Join(filepath.Dir(dir), match[2])
			if path == dir {
				return nil, fmt.Errorf("%s calls the module that it belongs to", next[0])
			}
			if !found[path] {
				found[path] = true
				next = append(next, path)
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
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
