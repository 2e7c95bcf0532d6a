package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockInterval is how often LockFile tries again.
const lockInterval = 20 * time.Millisecond

// ErrLocked means that another process holds a lock.
var ErrLocked = errors.New("the lock is held")

// FileLock is a lock on a file. The kernel releases it when every process
// that has the file open has closed it or exited. A child that inherits File holds
// the lock too.
type FileLock struct{ File *os.File }

// TryLockFile locks a file exclusively. The file is created if it does not exist. It
// returns ErrLocked if the lock is held.
func TryLockFile(path string) (*FileLock, error) { return tryLock(path, unix.LOCK_EX) }

func tryLock(path string, how int) (*FileLock, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", filepath.Base(path), err)
	}
	err = unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
	if err == nil {
		return &FileLock{File: file}, nil
	}
	file.Close()
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return nil, ErrLocked
	}
	return nil, fmt.Errorf("locking %s: %w", filepath.Base(path), err)
}

// LockFile is like TryLockFile, but blocks until the lock is free or ctx ends.
func LockFile(ctx context.Context, path string) (*FileLock, error) {
	return lockFile(ctx, path, unix.LOCK_EX)
}

// ShareFile is like LockFile, but others can share the lock, which keeps LockFile out.
func ShareFile(ctx context.Context, path string) (*FileLock, error) {
	return lockFile(ctx, path, unix.LOCK_SH)
}

func lockFile(ctx context.Context, path string, how int) (*FileLock, error) {
	for {
		lock, err := tryLock(path, how)
		if !errors.Is(err, ErrLocked) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the lock %s: %w", path, context.Cause(ctx))
		case <-time.After(lockInterval):
		}
	}
}

// IsLocked reports whether a process holds the lock on a file. The file need not
// exist.
func IsLocked(path string) (bool, error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	lock, err := TryLockFile(path)
	switch {
	case errors.Is(err, ErrLocked):
		return true, nil
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	lock.Release()
	return false, nil
}

// Current reports whether the locked file is still the one at its path. If it is
// not, another process can lock the path.
func (l *FileLock) Current() bool {
	locked, err := l.File.Stat()
	if err != nil {
		return false
	}
	existing, err := os.Stat(l.File.Name())
	return err == nil && os.SameFile(locked, existing)
}

// Release releases the lock, unless a child holds it too.
func (l *FileLock) Release() { l.File.Close() }
