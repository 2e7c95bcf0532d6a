package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/fluxcd/flux2/v2/pkg/manifestgen/install"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// release matches the URL of a controller's manifests in its releases.
var release = regexp.MustCompile(`https://github\.com/fluxcd/([a-z-]+)/releases/download/(v[0-9.]+)/[a-z-]+\.(crds|deployment)\.yaml`)

// overlays are the directories of a controller's module from which the files of its
// releases are built.
var overlays = map[string]string{"crds": "config/crd", "deployment": "config/manager"}

// render returns the manifests of Flux with the given controllers.
func render(ctx context.Context, version string, components []string) (string, error) {
	flux, err := moduleDir(ctx, fluxModule, version)
	if err != nil {
		return "", err
	}
	work, err := os.MkdirTemp("", "fluxgen-")
	if err != nil {
		return "", fmt.Errorf("creating a work directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	source, base := filepath.Join(work, "manifests"), filepath.Join(work, "base")
	if err := copyFiles(filepath.Join(flux, "manifests"), source); err != nil {
		return "", fmt.Errorf("copying Flux's manifests: %w", err)
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", fmt.Errorf("creating a work directory: %w", err)
	}
	for _, component := range components {
		dir := filepath.Join(source, "bases", component)
		if err := rewriteReleases(ctx, dir); err != nil {
			return "", fmt.Errorf("finding the manifests of %s: %w", component, err)
		}
		if err := build(dir, filepath.Join(base, component+".yaml")); err != nil {
			return "", err
		}
	}
	for _, extra := range []string{"rbac", "policies"} {
		if err := build(filepath.Join(source, extra), filepath.Join(base, extra+".yaml")); err != nil {
			return "", err
		}
	}
	options := install.MakeDefaultOptions()
	options.Version, options.Components = version, components
	manifest, err := install.Generate(options, base)
	if err != nil {
		return "", fmt.Errorf("generating the install manifests: %w", err)
	}
	return manifest.Content, nil
}

// rewriteReleases replaces the URLs of releases in a kustomization with files that are
// built from the sources of those releases.
func rewriteReleases(ctx context.Context, dir string) error {
	path := filepath.Join(dir, "kustomization.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for _, found := range release.FindAllStringSubmatch(string(text), -1) {
		address, controller, version, kind := found[0], found[1], found[2], found[3]
		module, err := moduleDir(ctx, "github.com/fluxcd/"+controller, version)
		if err != nil {
			return err
		}
		name := kind + ".gen.yaml"
		if err := build(filepath.Join(module, filepath.FromSlash(overlays[kind])), filepath.Join(dir, name)); err != nil {
			return err
		}
		text = []byte(strings.ReplaceAll(string(text), address, name))
	}
	return os.WriteFile(path, text, 0o644)
}

// build writes the objects of the kustomization in dir.
func build(dir, out string) error {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return fmt.Errorf("building %s: %w", filepath.Base(dir), err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(dir), err)
	}
	return os.WriteFile(out, text, 0o644)
}

// copyFiles copies a directory of a module, whose files are read-only, and makes the
// copies writable.
func copyFiles(from, to string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return filepath.WalkDir(to, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(path, 0o755) //nolint:gosec // Manifests without secrets, and directories.
	})
}

// moduleDir downloads a Go module and returns its directory. dev/bin/charts has the same
// function: programs with separate go.mod files share no packages.
func moduleDir(ctx context.Context, module, version string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module+"@"+version)
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, runErr := cmd.Output()
	var answer struct{ Dir, Error string }
	if err := json.Unmarshal(out, &answer); err == nil && answer.Error != "" {
		return "", fmt.Errorf("downloading %s@%s: %s", module, version, answer.Error)
	}
	if runErr != nil {
		return "", fmt.Errorf("downloading %s@%s: %w: %s", module, version, runErr, stderr.String())
	}
	if answer.Dir == "" {
		return "", fmt.Errorf("downloading %s@%s: go mod download returned no directory", module, version)
	}
	return answer.Dir, nil
}
