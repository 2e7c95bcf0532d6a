package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/appthrust/capt/dev/gobuild"
	"github.com/appthrust/capt/dev/revision"
)

// programs provides the programs of images. All methods may take minutes.
type programs interface {
	// compile builds a program of this repository.
	compile(ctx context.Context, platform v1.Platform, name string) (string, error)
	// part returns a third-party program that is built from its pinned module.
	part(ctx context.Context, platform v1.Platform, name string) (string, error)
	// sources returns the directory of each module of a program, by its path.
	sources(ctx context.Context, program string, modules []debug.Module) (map[string]string, error)
}

// partModules maps third-party programs to the directories of dev/bin that pin them.
var partModules = map[string]string{"tofu": "opentofu"}

// toolchain builds programs with Go.
type toolchain struct {
	// root is the directory of the repository, work that of the programs.
	root, work string
	source     revision.Source
}

func (t toolchain) compile(ctx context.Context, platform v1.Platform, name string) (string, error) {
	out := filepath.Join(t.work, platform.Architecture, name)
	return out, gobuild.Program(ctx, t.root, t.source, platform.OS, platform.Architecture, name, out)
}

func (t toolchain) part(ctx context.Context, platform v1.Platform, name string) (string, error) {
	dir := filepath.Join(t.work, platform.Architecture)
	cmd := exec.CommandContext(ctx, "go", "run", "./parts", "-platform", platform.OS+"/"+platform.Architecture, "-link", dir, name)
	cmd.Dir = filepath.Join(t.root, "dev")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("building %s for %s: %w", name, platform, err)
	}
	return filepath.Join(dir, name), nil
}

func (t toolchain) sources(ctx context.Context, program string, modules []debug.Module) (map[string]string, error) {
	dir := t.root
	if module := partModules[program]; module != "" {
		dir = filepath.Join(t.root, "dev", "bin", module)
	}
	dirs := map[string]string{}
	args := []string{"mod", "download", "-json"}
	for _, module := range modules {
		if module.Sum == "" {
			// The main module is a directory of this repository.
			dirs[module.Path] = t.root
			continue
		}
		args = append(args, module.Path+"@"+module.Version)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("downloading modules: %w\n%s", err, out)
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var found struct{ Path, Dir string }
		if err := decoder.Decode(&found); errors.Is(err, io.EOF) {
			return dirs, nil
		} else if err != nil {
			return nil, fmt.Errorf("downloading modules: %w", err)
		}
		dirs[found.Path] = found.Dir
	}
}
