//go:build unix

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// PrivateDir creates a directory for files of this user only. It returns an error if the
// directory exists and another user owns it, or can replace files in it: in a shared
// temporary directory, another user may have created it first.
func PrivateDir(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !isOwn(info) {
		return fmt.Errorf("another user owns %s: choose another directory", path)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		if info, err = os.Stat(path); err != nil {
			return err
		}
	}
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", path)
	case !isOwn(info):
		return fmt.Errorf("another user owns %s: choose another directory", path)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("other users can write to %s: run chmod go-w %s, or choose another directory", path, path)
	}
	return nil
}

// isOwn reports whether this user owns a file.
func isOwn(info fs.FileInfo) bool {
	status, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(status.Uid) == os.Geteuid()
}
