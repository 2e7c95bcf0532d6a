package main

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// architecture is the page whose first picture draws the imports between groups.
const architecture = "docs/architecture.md"

// internal is the import path of the groups.
const internal = "github.com/appthrust/capt/internal/"

// shared are the groups that every group may import. The picture does not draw
// these imports.
var shared = []string{"elements", "host", "kubernetes", "message", "seal", "version"}

// verifyImports returns an error for each import between groups of internal, or
// from cmd to a group, that the picture of the architecture does not draw, and for
// each arrow of the picture without such an import.
func verifyImports(root string) error {
	page, err := os.ReadFile(filepath.Join(root, architecture))
	if err != nil {
		return fmt.Errorf("reading the architecture: %w", err)
	}
	drawn, err := drawnArrows(string(page))
	if err != nil {
		return err
	}
	imported, err := importedArrows(root)
	if err != nil {
		return err
	}
	var errs []error
	for _, arrow := range slices.Sorted(maps.Keys(imported)) {
		if !drawn[arrow] {
			errs = append(errs, fmt.Errorf("%s: the picture lacks the arrow %s, which %s imports", architecture, arrow, imported[arrow]))
		}
	}
	for _, arrow := range slices.Sorted(maps.Keys(drawn)) {
		if imported[arrow] == "" {
			errs = append(errs, fmt.Errorf("%s: the picture draws %s, but there is no such import", architecture, arrow))
		}
	}
	return errors.Join(errs...)
}

var (
	picture = regexp.MustCompile("(?s)```mermaid\n(.*?)```")
	node    = regexp.MustCompile(`(?m)^\s*(\w+)\["([\w/]+)`)
	arrows  = regexp.MustCompile(`(?m)^\s*([\w &]+?) --> ([\w &]+?)\s*$`)
)

// drawnArrows returns the arrows of the first picture, such as "cli --> addon". The
// label of a node begins with the name of its group.
func drawnArrows(page string) (map[string]bool, error) {
	match := picture.FindStringSubmatch(page)
	if match == nil {
		return nil, fmt.Errorf("%s: no picture", architecture)
	}
	names := map[string]string{}
	for _, n := range node.FindAllStringSubmatch(match[1], -1) {
		names[n[1]] = n[2]
	}
	drawn := map[string]bool{}
	for _, line := range arrows.FindAllStringSubmatch(match[1], -1) {
		for from := range strings.SplitSeq(line[1], " & ") {
			for to := range strings.SplitSeq(line[2], " & ") {
				drawn[names[from]+" --> "+names[to]] = true
			}
		}
	}
	return drawn, nil
}

// importedArrows returns the imports between groups, each with a file that has it.
// It ignores tests, packages that only tests import, and imports of shared groups.
func importedArrows(root string) (map[string]string, error) {
	imported := map[string]string{}
	for _, dir := range []string{"internal", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && strings.HasSuffix(path, "test"):
				return filepath.SkipDir
			case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			file, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			return addArrows(imported, path, filepath.ToSlash(file))
		})
		if err != nil {
			return nil, fmt.Errorf("reading the imports: %w", err)
		}
	}
	return imported, nil
}

func addArrows(imported map[string]string, path, file string) error {
	parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		return err
	}
	parts := strings.Split(file, "/")
	from := parts[1]
	if parts[0] == "cmd" {
		from = "cmd/" + parts[1]
	}
	for _, spec := range parsed.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		below, ok := strings.CutPrefix(name, internal)
		to, _, _ := strings.Cut(below, "/")
		if ok && to != from && !slices.Contains(shared, to) {
			imported[from+" --> "+to] = file
		}
	}
	return nil
}
