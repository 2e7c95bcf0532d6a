package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/appthrust/capt/internal/host"
)

// writeFile replaces a file atomically, with access for its owner only, and creates
// its directory.
func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	return host.WriteFile(path, content, 0o600)
}

// openInside opens a file below a directory. A module may have replaced the file, or a
// directory above it, by a symbolic link to what only the engine may use: that is an
// error.
func openInside(dir, path string, flag int) (*os.File, error) {
	relative, err := filepath.Rel(dir, path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	return root.OpenFile(relative, flag, 0o600)
}

// readInside reads a file below a directory, as openInside.
func readInside(dir, path string) ([]byte, error) {
	file, err := openInside(dir, path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(file)
	return content, errors.Join(err, file.Close())
}

// ReadFile reads a file of the working directory.
func (w *Workdir) ReadFile(path string) ([]byte, error) { return readInside(w.Dir, path) }

// removeLinks removes the symbolic links with which a module has replaced directories and
// files that the engine uses: no sandbox limits the engine, so it would read, write and
// remove what is there.
func removeLinks(dir string) error {
	for _, name := range []string{"module", "run", markerFile, ownerFile} {
		path := filepath.Join(dir, name)
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink != 0 {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("removing a link: %w", err)
			}
		}
	}
	found, err := readMarker(dir)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the working directory: %w", err)
	}
	defer func() { _ = root.Close() }()
	if _, err := root.Stat(found.Root); err == nil || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	// A link in the module leads out of the working directory.
	if err := errors.Join(root.RemoveAll("module"), root.RemoveAll(markerFile)); err != nil {
		return fmt.Errorf("removing a link: %w", err)
	}
	return nil
}

// copyTree copies a directory without the entries for which skip returns true.
// Symbolic links are copied as they are. Nothing becomes a hard link: a module could
// change a file of another workspace. File systems that can share the content of copies
// do so.
func copyTree(from, to string, skip func(relative string) bool) error {
	err := filepath.WalkDir(from, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		switch {
		case relative != "." && skip(relative):
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case entry.IsDir():
			return os.MkdirAll(target, 0o700)
		case entry.Type()&os.ModeSymlink != 0:
			destination, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(destination, target)
		case !entry.Type().IsRegular():
			return nil
		default:
			return copyFile(path, target)
		}
	})
	if err != nil {
		return fmt.Errorf("copying %s: %w", filepath.Base(from), err)
	}
	return nil
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm()|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

// RemoveAll removes a directory, including directories without write permission, which
// some programs create in the home directory.
func RemoveAll(path string) error {
	err := os.RemoveAll(path)
	if !errors.Is(err, os.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(path, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			return os.Chmod(path, 0o700) //nolint:gosec // A directory.
		}
		return err
	})
	return os.RemoveAll(path)
}

// lockFile locks a file and waits while another process holds the lock. It creates
// the directory of the file.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("locking %s: %w", filepath.Base(path), err)
	}
	lock, err := host.LockFile(ctx, path)
	if err != nil {
		return nil, err
	}
	return lock.Release, nil
}
