package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// checkModule validates a module and its examples, runs its tests, and checks its error
// messages and its README.
func (w *workspace) checkModule(ctx context.Context, m module) (string, error) {
	dir := filepath.Join(w.copied, m.name)
	if err := w.validate(ctx, dir); err != nil {
		return "", err
	}
	examples, err := filepath.Glob(filepath.Join(dir, "examples", "*"))
	if err != nil {
		return "", fmt.Errorf("finding examples: %w", err)
	}
	for _, example := range examples {
		if err := w.validate(ctx, example); err != nil {
			return "", fmt.Errorf("in the example %s: %w", filepath.Base(example), err)
		}
	}
	tests, err := w.test(ctx, dir)
	if err != nil {
		return "", err
	}
	refusals, err := w.checkRefusals(ctx, m)
	if err != nil {
		return "", err
	}
	if err := checkReadme(m); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, %d error messages, %d examples", tests, refusals, len(examples)), nil
}

func (w *workspace) validate(ctx context.Context, dir string) error {
	if err := w.init(ctx, dir); err != nil {
		return err
	}
	_, err := w.run(ctx, dir, nil, "validate", "-no-color")
	return err
}

var passed = regexp.MustCompile(`Success! ([0-9]+) passed, 0 failed\.`)

// test runs the tests of a module. Only the modules of the group local may have none.
func (w *workspace) test(ctx context.Context, dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "tests", "*.tftest.hcl"))
	if err != nil {
		return "", fmt.Errorf("finding tests: %w", err)
	}
	if len(files) == 0 {
		if strings.Contains(filepath.ToSlash(dir), "/local/") {
			return "no tests", nil
		}
		return "", errors.New("the module has no tests")
	}
	out, err := w.run(ctx, dir, nil, "test", "-no-color")
	if err != nil {
		return "", err
	}
	match := passed.FindStringSubmatch(out.stdout)
	if match == nil || match[1] == "0" {
		return "", fmt.Errorf("no test ran:\n%s", out)
	}
	return match[1] + " tests", nil
}

// readTerraform returns the .tf files of a directory by name.
func readTerraform(dir string) (map[string][]byte, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.tf"))
	if err != nil {
		return nil, fmt.Errorf("finding files: %w", err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading a module: %w", err)
		}
		files[filepath.Base(name)] = text
	}
	return files, nil
}
