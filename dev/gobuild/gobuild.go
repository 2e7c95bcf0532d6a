// Package gobuild compiles programs so that the same source and the same version of Go
// result in the same bytes on every machine.
package gobuild

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/appthrust/capt/dev/revision"
)

// Environment returns the environment of a reproducible build for a platform. What the
// machine prefers, for example a newer instruction set, does not apply.
func Environment(goos, goarch string) []string {
	return append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-buildvcs=false",
		"GOAMD64=v1", "GOARM64=v8.0", "GOPPC64=power8", "GOEXPERIMENT=", "GOFIPS140=off")
}

// page is the file that exists if the page of captctl ui is built.
const page = "internal/web/assets/dist/index.html"

// CheckPage returns an error if the page of captctl ui is not built. A development version
// works without it, and says so.
func CheckPage(root, version string, warnings io.Writer) error {
	if _, err := os.Stat(filepath.Join(root, page)); err == nil {
		return nil
	}
	const problem = "the page of captctl ui is not built: run make ui, which needs npm with Node 20.19, 22.12 or later"
	if !strings.HasSuffix(version, "-dev") {
		return errors.New(problem)
	}
	fmt.Fprintln(warnings, problem)
	return nil
}

const versionPackage = "github.com/appthrust/capt/internal/version"

// Program compiles a program of cmd/ in the repository at root, and writes it to out. It
// may take minutes.
func Program(ctx context.Context, root string, source revision.Source, goos, goarch, name, out string) error {
	flags := fmt.Sprintf("-s -w -X %[1]s.Commit=%[2]s -X %[1]s.Date=%[3]s", versionPackage, source.Description(), source.Time.Format(time.RFC3339))
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-trimpath", "-ldflags="+flags, "-o", out, "./cmd/"+name)
	cmd.Dir, cmd.Env = root, Environment(goos, goarch)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building %s for %s/%s: %w", name, goos, goarch, err)
	}
	return nil
}
