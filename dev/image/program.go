package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/appthrust/capt/dev/gobuild"
	"github.com/appthrust/capt/dev/revision"
)

// programs provides the programs of images. Both methods may take minutes.
type programs interface {
	// compile builds a program of this repository.
	compile(ctx context.Context, platform v1.Platform, name string) (string, error)
	// part returns a third-party program that is built from its pinned module.
	part(ctx context.Context, platform v1.Platform, name string) (string, error)
}

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
