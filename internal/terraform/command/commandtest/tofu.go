// Package commandtest finds the real OpenTofu and Terraform for tests, and fakes them.
package commandtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// rootModule is the first line of the go.mod at the root of the repository.
const rootModule = "module github.com/appthrust/capt\n"

// Tofu returns the path of OpenTofu: that of CAPT_TERRAFORM_BINARY, else the one
// built by make parts, else the one in PATH.
func Tofu(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("CAPT_TERRAFORM_BINARY"); path != "" {
		return path
	}
	if path := filepath.Join(Parts(t), "tofu"); isFile(path) {
		return path
	}
	path, err := exec.LookPath("tofu")
	if err != nil {
		t.Fatal("OpenTofu not found: run `make parts`, or set CAPT_TERRAFORM_BINARY")
	}
	return path
}

// Terraform returns the path of Terraform, or an empty string if it is not
// installed.
func Terraform() string {
	path, err := exec.LookPath("terraform")
	if err != nil {
		return ""
	}
	return path
}

// Parts returns the directory of the programs that make parts builds.
func Parts(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && len(content) >= len(rootModule) && string(content[:len(rootModule)]) == rootModule {
			return filepath.Join(dir, "bin", "parts")
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("go.mod of the repository not found")
		}
		dir = parent
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// FakeTools returns a directory with programs that print a version, by their names.
func FakeTools(t testing.TB, versions map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, version := range versions {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho '"+version+"'\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
