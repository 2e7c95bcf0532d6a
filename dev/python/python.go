// Package python installs programs from PyPI.
package python

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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
	unlock, err := lockFile(dir + ".lock")
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

// lockFile locks a file and waits while another process holds the lock.
func lockFile(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}
