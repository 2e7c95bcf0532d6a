package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// licenceFile matches the files of a module with its licence and notices.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents)([-._].*)?$`)

// licences returns the licences and notices of a program and of the modules that it is
// built of, each text once.
func licences(ctx context.Context, from programs, program, path string) ([]byte, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the modules of %s: %w", program, err)
	}
	var modules []debug.Module
	for _, module := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if module.Replace != nil {
			module = module.Replace
		}
		// A module of this repository has the licence of the repository.
		if !strings.HasPrefix(module.Path, ".") {
			modules = append(modules, *module)
		}
	}
	dirs, err := from.sources(ctx, program, modules)
	if err != nil {
		return nil, fmt.Errorf("finding the licences of %s: %w", program, err)
	}
	holders := map[string][]string{}
	for _, module := range modules {
		texts, err := licenceTexts(dirs[module.Path])
		if err != nil {
			return nil, fmt.Errorf("reading the licence of %s: %w", module.Path, err)
		}
		for _, text := range texts {
			holders[text] = append(holders[text], strings.TrimSpace(module.Path+" "+module.Version))
			// The standard library has the licence of these modules.
			if standard := "the standard library of Go"; strings.HasPrefix(module.Path, "golang.org/x/") && !slices.Contains(holders[text], standard) {
				holders[text] = append(holders[text], standard)
			}
		}
	}
	return formatLicences(program, holders), nil
}

func formatLicences(program string, holders map[string][]string) []byte {
	var texts []string
	for text := range holders {
		slices.Sort(holders[text])
		texts = append(texts, text)
	}
	slices.SortFunc(texts, func(a, b string) int {
		if order := strings.Compare(holders[a][0], holders[b][0]); order != 0 {
			return order
		}
		return strings.Compare(a, b)
	})
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s contains the following modules. Their sources are at https://proxy.golang.org.\n", program)
	for _, text := range texts {
		fmt.Fprintf(&out, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(holders[text], "\n"), strings.TrimSpace(text))
	}
	return out.Bytes()
}

// licenceTexts returns the licence and the notices in the root directory of a module.
func licenceTexts(dir string) ([]string, error) {
	if dir == "" {
		return nil, errors.New("the module has no directory")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, entry := range entries {
		if entry.Type()&fs.ModeType != 0 || !licenceFile.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, string(text))
	}
	return texts, nil
}
