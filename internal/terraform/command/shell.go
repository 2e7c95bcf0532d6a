package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/appthrust/capt/internal/terraform"
)

// ToolPath returns the path of the tool.
func (s *executor) ToolPath() string { return s.tool.Path }

// Used returns the tool that the commands of the session ran, as far as they printed it.
func (s *executor) Used() terraform.Tool {
	return s.used
}

// ShellEnvironment returns the environment in which a user runs the tool by hand, and which
// tool that is: the environment of the session, with questions and colours. The first
// directory of PATH has the tool under its usual name: the directory of the tool may have
// another version of that name. The name of the other product refuses to run, because it
// would change the state into one of its own.
func (s *Session) ShellEnvironment(ctx context.Context) ([]string, terraform.Tool, error) {
	version, err := s.tool.Version(ctx)
	if err != nil {
		return nil, terraform.Tool{}, err
	}
	programs := filepath.Join(s.RunDir, "bin")
	if err := os.MkdirAll(programs, 0o700); err != nil {
		return nil, terraform.Tool{}, fmt.Errorf("creating the directory of the tool: %w", err)
	}
	if err := placeTool(programs, s.tool.Path, version); err != nil {
		return nil, terraform.Tool{}, err
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

// placeTool links the tool in a directory, beside a program that refuses to be the other one.
func placeTool(dir, path string, version terraform.Tool) error {
	other := terraform.Tool{Product: terraform.ProductTerraform}
	if version.Product == other.Product {
		other.Product = terraform.ProductOpenTofu
	}
	link, refusal := filepath.Join(dir, version.Program()), filepath.Join(dir, other.Program())
	for _, old := range []string{link, refusal} {
		if err := os.RemoveAll(old); err != nil {
			return fmt.Errorf("replacing the link to the tool: %w", err)
		}
	}
	if err := os.Symlink(path, link); err != nil {
		return fmt.Errorf("linking the tool: %w", err)
	}
	script := fmt.Sprintf("#!/bin/sh\necho 'This shell is for %s: use %s, or open the shell with --terraform-binary PATH for %s' >&2\nexit 1\n", version, version.Program(), other)
	if err := os.WriteFile(refusal, []byte(script), 0o700); err != nil {
		return fmt.Errorf("writing %s: %w", refusal, err)
	}
	return nil
}
