package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The programs of the cache are run as they are, so others must not be able to change them.
func TestPrepareCache_refusesOneOfOthers(t *testing.T) {
	const other = 65534
	for name, change := range map[string]func(dir string) error{
		"all users can write": func(dir string) error { return os.Chmod(dir, 0o777) },
		"of another user":     func(dir string) error { return os.Chown(dir, other, -1) },
		"another group can write": func(dir string) error {
			return errors.Join(os.Chown(dir, -1, other), os.Chmod(dir, 0o775))
		},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getuid() != 0 && name != "all users can write" {
				t.Skip("needs root")
			}
			dir := t.TempDir()
			s := store{cache: filepath.Join(dir, "capt", "parts")}
			if err := s.prepareCache(); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(s.cache); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("the cache is created as %v (%v)", info.Mode(), err)
			}
			if err := change(filepath.Join(dir, "capt")); err != nil {
				t.Fatal(err)
			}
			if err := s.provide(t.Context(), io.Discard, nil, ""); err == nil || !strings.Contains(err.Error(), "set CAPT_PARTS_CACHE") {
				t.Errorf("it is used: %v", err)
			}
		})
	}
}

func TestDefaultCache_isNotShared(t *testing.T) {
	for _, name := range []string{"CAPT_PARTS_CACHE", "XDG_CACHE_HOME", "HOME"} {
		t.Setenv(name, "")
	}
	if dir, err := defaultCache(); err == nil || !strings.Contains(err.Error(), "set HOME or CAPT_PARTS_CACHE") {
		t.Errorf("the cache is %q (%v)", dir, err)
	}
	if err := run(t.Context(), []string{"-list"}); err == nil || !strings.Contains(err.Error(), "CAPT_PARTS_CACHE") {
		t.Errorf("it runs: %v", err)
	}
}
