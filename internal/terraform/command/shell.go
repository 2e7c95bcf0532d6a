package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Name returns the name of the program under which users know the product.
func (p Product) Name() string {
	if p == Terraform {
		return "terraform"
	}
	return "tofu"
}

// ToolPath returns the path of the tool.
func (s *Session) ToolPath() string { return s.tool.Path }

// ShellEnvironment returns the environment in which a user runs the tool by hand, and which
// tool that is: the environment of the session, with questions and colours. The first
// directory of PATH has only the tool, under its usual name: the directory of the tool may
// have another version of that name.
func (s *Session) ShellEnvironment(ctx context.Context) ([]string, Version, error) {
	version, err := s.tool.Version(ctx)
	if err != nil {
		return nil, Version{}, err
	}
	programs := filepath.Join(s.RunDir, "bin")
	if err := os.MkdirAll(programs, 0o700); err != nil {
		return nil, Version{}, fmt.Errorf("creating the directory of the tool: %w", err)
	}
	link := filepath.Join(programs, version.Product.Name())
	if err := os.RemoveAll(link); err != nil {
		return nil, Version{}, fmt.Errorf("replacing the link to the tool: %w", err)
	}
	if err := os.Symlink(s.tool.Path, link); err != nil {
		return nil, Version{}, fmt.Errorf("linking the tool: %w", err)
	}
	env := slices.DeleteFunc(slices.Clone(s.env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains([]string{"TF_INPUT", "TF_IN_AUTOMATION", "NO_COLOR"}, name)
	})
	found := false
	for i, entry := range env {
		if path, ok := strings.CutPrefix(entry, "PATH="); ok {
			env[i], found = "PATH="+programs+string(os.PathListSeparator)+path, true
		}
	}
	if !found {
		env = append(env, "PATH="+programs)
	}
	return env, version, nil
}
