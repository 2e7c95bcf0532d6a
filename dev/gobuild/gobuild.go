// Package gobuild compiles programs so that the same source and the same version of Go
// result in the same bytes on every machine.
package gobuild

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/appthrust/capt/dev/revision"
)

// Environment returns the environment of a reproducible build for a platform. What the
// machine prefers, for example a newer instruction set, does not apply.
func Environment(goos, goarch string) []string {
	return append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-buildvcs=false",
		"GOAMD64=v1", "GOARM64=v8.0", "GOPPC64=power8", "GOEXPERIMENT=", "GOFIPS140=off")
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
