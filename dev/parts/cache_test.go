package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// other is a user, and a group, of nothing here.
const other = 65534

// The programs of the cache are run as they are, so others must not be able to change them.
func TestPrepareCache_refusesOneOfOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(dir string) error
		reason string
	}{
		"all users can write": {func(dir string) error { return os.Chmod(dir, 0o777) }, "all users can write to "},
		"of another user":     {func(dir string) error { return os.Chown(dir, other, -1) }, " belongs to user 65534"},
		"another group can write": {
			func(dir string) error { return errors.Join(os.Chown(dir, -1, other), os.Chmod(dir, 0o775)) },
			"group 65534 can write to ",
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
			if err := tt.change(s.cache); err != nil {
				t.Fatal(err)
			}
			err := s.provide(t.Context(), io.Discard, nil, "")
			if err == nil {
				t.Fatal("it is used")
			}
			for _, text := range []string{s.cache, tt.reason, "set CAPT_PARTS_CACHE"} {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not have %q", err, text)
				}
			}
		})
	}
}

func TestProvide_removesWhatKilledProcessesLeft(t *testing.T) {
	s := store{cache: t.TempDir()}
	old, kept := time.Now().Add(-2*time.Hour), []string{"download-new", "etcd/v1-release-a/etcd.partial-new", "etcd/v1-release-a/etcd", "releases.sum"}
	gone := []string{"download-1", "etcd/v1-release-a/etcd.partial-1", "etcd/v1-b/etcd.partial"}
	for _, name := range append(gone, kept...) {
		path := filepath.Join(s.cache, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o755)); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "new") {
			continue
		}
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.provide(t.Context(), io.Discard, nil, ""); err != nil {
		t.Fatal(err)
	}
	for _, name := range gone {
		if _, err := os.Stat(filepath.Join(s.cache, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	for _, name := range kept {
		if _, err := os.Stat(filepath.Join(s.cache, name)); err != nil {
			t.Error(err)
		}
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
