// Package python installs programs from PyPI.
package python

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/appthrust/capt/dev/filelock"
)

// Install creates a virtual environment below a directory, if it does not exist, and returns
// its path. It has exactly the packages of the requirements, which must have the hashes of
// their files. An incomplete environment is replaced.
func Install(ctx context.Context, parent, name, requirements string) (string, error) {
	parent, err := filepath.Abs(parent)
	if err != nil {
		return "", fmt.Errorf("resolving the cache directory: %w", err)
	}
	dir := filepath.Join(parent, fmt.Sprintf("%s-%.6x", name, sha256.Sum256([]byte(requirements))))
	done := filepath.Join(dir, "installed")
	if _, err := os.Stat(done); err == nil {
		return dir, nil
	}
	unlock, err := filelock.Lock(ctx, dir+".lock", func() {
		fmt.Fprintf(os.Stderr, "waiting for another installation of %s in %s\n", name, dir)
	})
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(done); err == nil {
		// Another process has installed it meanwhile.
		return dir, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("removing an incomplete environment: %w", err)
	}
	fmt.Fprintf(os.Stderr, "installing %s in %s\n", name, dir)
	for _, command := range [][]string{
		{"python3", "-m", "venv", dir},
		// The requirements of a build have no hashes: nothing is built.
		{filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:", "--requirement", "/dev/stdin"},
	} {
		install := exec.CommandContext(ctx, command[0], command[1:]...)
		install.Stdin = strings.NewReader(requirements)
		if out, err := install.CombinedOutput(); err != nil {
			return "", fmt.Errorf("installing %s (requires Python 3 with venv, and access to PyPI): %s: %w\n%s", name, command[0], err, out)
		}
	}
	return dir, os.WriteFile(done, nil, 0o600)
}
