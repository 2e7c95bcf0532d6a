package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// module is a directory of Terraform files.
type module struct {
	// name is its path in the directory of the modules.
	name string
	dir  string
}

// findModules returns the modules in a directory. Examples and tests belong to their
// module.
func findModules(root string) ([]module, error) {
	var modules []module
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if name := entry.Name(); name == "examples" || name == "tests" || name == ".terraform" {
			return filepath.SkipDir
		}
		files, err := filepath.Glob(filepath.Join(path, "*.tf"))
		if err != nil || len(files) == 0 {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		modules = append(modules, module{name: filepath.ToSlash(name), dir: path})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("finding modules: %w", err)
	}
	if len(modules) == 0 {
		return nil, fmt.Errorf("no modules in %s", root)
	}
	return modules, nil
}

func choose(modules []module, names []string) ([]module, error) {
	var chosen []module
	for _, name := range names {
		at := slices.IndexFunc(modules, func(m module) bool { return m.name == name })
		if at < 0 {
			return nil, fmt.Errorf("module %q does not exist", name)
		}
		chosen = append(chosen, modules[at])
	}
	return chosen, nil
}

// providers are the programs in the mirror, by the name and version that the modules
// require.
var providers = []struct{ program, name, version string }{
	{"terraform-provider-aws", "aws", "6.47.1"},
	// Not the real one: see dev/bin/charts/provider-helm-standin.
	{"terraform-provider-helm-standin", "helm", "3.0.2"},
}

// workspace is a copy of the modules with a configuration for tofu.
type workspace struct {
	// source is the directory of the modules.
	source string
	// dir is removed at the end. copied is its subdirectory with the modules.
	dir    string
	copied string
	tofu   string
	env    []string
}

func newWorkspace(source, parts string) (*workspace, error) {
	absolute, err := filepath.Abs(parts)
	if err != nil {
		return nil, fmt.Errorf("resolving %s: %w", parts, err)
	}
	dir, err := os.MkdirTemp("", "capt-modules-")
	if err != nil {
		return nil, fmt.Errorf("creating a workspace: %w", err)
	}
	w := &workspace{source: source, dir: dir, copied: filepath.Join(dir, "modules"), tofu: filepath.Join(absolute, "tofu")}
	if err := w.prepare(absolute); err != nil {
		w.remove()
		return nil, err
	}
	return w, nil
}

func (w *workspace) remove() {
	if err := os.RemoveAll(w.dir); err != nil {
		fmt.Fprintln(os.Stderr, "modules: leaving a workspace behind:", err)
	}
}

func (w *workspace) prepare(parts string) error {
	if err := os.CopyFS(w.copied, os.DirFS(w.source)); err != nil {
		return fmt.Errorf("copying the modules: %w", err)
	}
	mirror := filepath.Join(w.dir, "mirror")
	for _, p := range providers {
		program := filepath.Join(parts, p.program)
		if _, err := os.Stat(program); err != nil {
			return fmt.Errorf("%s not found: run 'go run ./parts -link %s modules' first", program, parts)
		}
		// OpenTofu and Terraform use different hosts.
		for _, host := range []string{"registry.opentofu.org", "registry.terraform.io"} {
			at := filepath.Join(mirror, host, "hashicorp", p.name, p.version, runtime.GOOS+"_"+runtime.GOARCH)
			if err := os.MkdirAll(at, 0o755); err != nil {
				return fmt.Errorf("creating the mirror: %w", err)
			}
			if err := os.Symlink(program, filepath.Join(at, "terraform-provider-"+p.name+"_v"+p.version)); err != nil {
				return fmt.Errorf("filling the mirror: %w", err)
			}
		}
	}
	config := filepath.Join(w.dir, "tofu.rc")
	text := fmt.Sprintf("disable_checkpoint = true\nprovider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return fmt.Errorf("writing the configuration of tofu: %w", err)
	}
	// Without the caller's environment, which may contain credentials and settings.
	w.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "TMPDIR=" + w.dir,
		"TF_CLI_CONFIG_FILE=" + config, "TF_IN_AUTOMATION=1", "AWS_EC2_METADATA_DISABLED=true",
	}
	return nil
}

// outcome is the output of tofu.
type outcome struct{ stdout, stderr string }

func (o outcome) String() string { return strings.TrimSpace(o.stdout + "\n" + o.stderr) }

// run runs tofu in a directory. The error of a failed command contains the output.
func (w *workspace) run(ctx context.Context, dir string, env []string, args ...string) (outcome, error) {
	cmd := exec.CommandContext(ctx, w.tofu, args...)
	cmd.Dir, cmd.Env = dir, append(slices.Clone(w.env), env...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	seen := outcome{stdout.String(), stderr.String()}
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		return seen, fmt.Errorf("running tofu %s: %w\n%s", args[0], err, seen)
	}
	if err != nil {
		return seen, fmt.Errorf("running tofu %s: %w", args[0], err)
	}
	return seen, nil
}

func (w *workspace) format(ctx context.Context) (string, error) {
	seen, err := w.run(ctx, w.copied, nil, "fmt", "-check", "-recursive")
	if err != nil && seen.stdout != "" {
		return "", fmt.Errorf("modules are not formatted, run 'tofu fmt -recursive modules':\n%s", seen.stdout)
	}
	return "", err
}

func (w *workspace) init(ctx context.Context, dir string) error {
	_, err := w.run(ctx, dir, nil, "init", "-input=false", "-no-color")
	return err
}
