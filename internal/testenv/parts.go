package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Root returns the root of the repository.
var Root = sync.OnceValues(func() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), "module github.com/appthrust/capt\n") {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the working directory is not in CAPT's repository")
		}
		dir = parent
	}
})

// ReadFile returns the content of a file of the repository.
func ReadFile(t testing.TB, path string) []byte {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// Assets returns the directory of the programs that `make parts` builds.
func Assets() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "bin", "parts")
	if _, err := os.Stat(filepath.Join(dir, "kube-apiserver")); err != nil {
		return "", fmt.Errorf("programs for tests not found in %s: run `make parts` first", dir)
	}
	return dir, nil
}

// Part returns the path of a program that `make parts` builds.
func Part(name string) (string, error) {
	dir, err := Assets()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("program %s not found in %s: run `make parts` first", name, dir)
	}
	return path, nil
}

// Built returns the path of one of CAPT's programs, which `make build` builds.
func Built(name string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("program %s not found in %s: run `make build` first", name, filepath.Dir(path))
	}
	return path, nil
}

// ModuleDir returns the source directory of a module that CAPT depends on.
func ModuleDir(module string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	return moduleDir(root, module)
}

// partModuleDir returns the source directory of a module from which a program of `make
// parts` is built. dir is the directory of the program's module in dev/bin.
func partModuleDir(dir, module string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	root = filepath.Join(root, "dev", "bin", dir)
	cmd := exec.Command("go", "mod", "download", module)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("downloading module %s: %w: %s", module, err, out)
	}
	return moduleDir(root, module)
}

func moduleDir(root, module string) (string, error) {
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("finding module %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}
