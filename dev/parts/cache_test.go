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

// unmapped is the user that a user namespace shows for users outside of it.
const unmapped = 65534

// The programs of the cache are run as they are, so others must not be able to change them.
func TestPrepareCache_refusesOneOfOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(dir string) error
		reason string
	}{
		"all users can write": {func(dir string) error { return os.Chmod(dir, 0o777) }, "all users can write to it (mode drwxrwxrwx)"},
		"of another user":     {func(dir string) error { return os.Chown(dir, unmapped, -1) }, "it belongs to user "},
		"another group can write": {
			func(dir string) error { return errors.Join(os.Chown(dir, -1, unmapped), os.Chmod(dir, 0o775)) },
			"can write to it (mode drwxrwxr-x)",
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
			if err := tt.change(filepath.Join(dir, "capt")); err != nil {
				t.Fatal(err)
			}
			err := s.provide(t.Context(), io.Discard, nil, "")
			if err == nil {
				t.Fatal("it is used")
			}
			for _, text := range []string{s.cache, filepath.Join(dir, "capt") + ": ", tt.reason, "set CAPT_PARTS_CACHE"} {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not have %q", err, text)
				}
			}
		})
	}
}

// A user who can change a directory above the target of a link can replace the target.
func TestPrepareCache_checksTheTargetsOfLinks(t *testing.T) {
	dir := t.TempDir()
	home, shared, own := filepath.Join(dir, "home"), filepath.Join(dir, "shared"), filepath.Join(dir, "own")
	for _, made := range []string{home, filepath.Join(shared, "mine"), filepath.Join(own, "cache")} {
		if err := os.MkdirAll(made, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"direct":   filepath.Join(shared, "mine"),
		"relative": "../shared/mine",
		"chain":    "relative",
		// The last target is safe, but the link to it is not.
		"through": filepath.Join(shared, "mine", "link"),
		"safe":    "../home/../own/cache",
	} {
		if err := os.Symlink(target, filepath.Join(home, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(own, "cache"), filepath.Join(shared, "mine", "link")); err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{"direct", "relative", "chain", "through"} {
		if err := (store{cache: filepath.Join(home, link, "parts")}).prepareCache(); err == nil || !strings.Contains(err.Error(), shared+": all users can write to it") {
			t.Errorf("%s: %v", link, err)
		}
	}
	if err := (store{cache: filepath.Join(home, "safe", "parts")}).prepareCache(); err != nil {
		t.Error(err)
	}
	if err := os.Symlink("loop", filepath.Join(home, "loop")); err != nil {
		t.Fatal(err)
	}
	if err := checkOwned(filepath.Join(home, "loop")); err == nil {
		t.Error("a link to itself is accepted")
	}
	if os.Getuid() != 0 {
		return
	}
	if err := os.Lchown(filepath.Join(home, "safe"), unmapped, unmapped); err != nil {
		t.Fatal(err)
	}
	if err := checkOwned(filepath.Join(home, "safe", "parts")); err == nil || !strings.Contains(err.Error(), filepath.Join(home, "safe")+": it belongs to user ") {
		t.Errorf("a link of another user: %v", err)
	}
}

func TestForeign_judgesByOwnerAndMode(t *testing.T) {
	const me, other, group = 1000, 1001, 100
	host := account{uid: me, gid: me, unmapped: -1}
	container := account{uid: me, gid: me, unmapped: unmapped}
	for _, tt := range []struct {
		what     string
		who      account
		uid, gid int
		mode     os.FileMode
		above    bool
		foreign  bool
	}{
		{"of root", host, 0, 0, os.ModeDir | 0o755, true, false},
		{"of root's group", host, 0, 0, os.ModeDir | 0o775, true, false},
		{"of this user", host, me, me, os.ModeDir | 0o775, false, false},
		{"of this user, with another group that can read", host, me, group, os.ModeDir | 0o755, false, false},
		{"of this user, with another group that can write", host, me, group, os.ModeDir | os.ModeSetgid | 0o775, false, true},
		{"for all", host, me, me, os.ModeDir | 0o707, false, true},
		{"/tmp", host, 0, 0, os.ModeDir | os.ModeSticky | 0o777, true, false},
		{"of another", host, other, other, os.ModeDir | 0o700, true, true},
		{"a sticky one of another", host, other, other, os.ModeDir | os.ModeSticky | 0o777, true, true},
		{"of an unmapped user", host, unmapped, unmapped, os.ModeDir | 0o755, true, true},
		{"a link of this user", host, me, group, os.ModeSymlink | 0o777, true, false},
		{"a link of another", host, other, other, os.ModeSymlink | 0o777, true, true},
		// The container shows /, /home and /tmp of the machine as those of an unmapped user.
		{"/home in a container", container, unmapped, unmapped, os.ModeDir | 0o755, true, false},
		{"/tmp in a container", container, unmapped, unmapped, os.ModeDir | os.ModeSticky | 0o777, true, false},
		{"for an unknown group in a container", container, unmapped, unmapped, os.ModeDir | 0o775, true, true},
		{"for all in a container", container, unmapped, unmapped, os.ModeDir | 0o777, true, true},
		{"the cache itself, of an unknown user", container, unmapped, unmapped, os.ModeDir | 0o755, false, true},
		{"of another in a container", container, other, other, os.ModeDir | 0o755, true, true},
	} {
		if got := tt.who.foreign(tt.uid, tt.gid, tt.mode, tt.above); (got != "") != tt.foreign {
			t.Errorf("%s: %q", tt.what, got)
		}
	}
}

func TestUnmappedID_isThatOfAUserNamespace(t *testing.T) {
	for _, tt := range []struct {
		uidMap, overflow string
		want             int
	}{
		{"         0          0 4294967295\n", "65534\n", -1},
		{"         0       1000          1\n         1     100000      65536\n", "65534\n", unmapped},
		{"      1000       1000          1\n", "65534\n", unmapped},
		{"      1000       1000          1\n", "", -1},
		// There is no such file outside of Linux.
		{"", "", -1},
	} {
		if got := unmappedID(tt.uidMap, tt.overflow); got != tt.want {
			t.Errorf("with the map %q it is %d, want %d", tt.uidMap, got, tt.want)
		}
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
