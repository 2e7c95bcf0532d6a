// Package gomod downloads Go modules.
package gomod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Download returns the directory of the source of a module, which is named by its
// path or by PATH@VERSION. The go.mod of dir selects the version if none is given,
// and its go.sum verifies the checksum.
func Download(ctx context.Context, dir, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.Output()
	var found struct{ Dir, Error string }
	if decodeErr := json.Unmarshal(out, &found); err == nil {
		err = decodeErr
	}
	switch {
	case found.Error != "":
		return "", fmt.Errorf("downloading %s: %s", module, found.Error)
	case err != nil:
		var stderr []byte
		if exit, failed := errors.AsType[*exec.ExitError](err); failed {
			stderr = exit.Stderr
		}
		return "", fmt.Errorf("downloading %s: %w\n%s", module, err, stderr)
	case found.Dir == "":
		return "", fmt.Errorf("downloading %s: go mod download returned no directory", module)
	}
	return found.Dir, nil
}
