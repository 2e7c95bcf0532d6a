package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

const pollInterval = 20 * time.Millisecond

// errHeld means that another process holds a lock.
var errHeld = errors.New("the lock is held")

// lock is an exclusive lock on a file. The kernel releases it when every process
// that has the file open has closed it or exited. Children inherit the file, so a
// library that hides it cannot be used.
type lock struct{ file *os.File }

// tryLock returns errHeld if another process holds the lock.
func tryLock(path string) (*lock, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", filepath.Base(path), err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return &lock{file: file}, nil
	}
	file.Close()
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return nil, errHeld
	}
	return nil, fmt.Errorf("locking %s: %w", filepath.Base(path), err)
}

// waitForLock blocks until it has acquired the lock or ctx ends.
func waitForLock(ctx context.Context, path string) (held *lock, err error) {
	acquired := poll(ctx, pollInterval, func() bool {
		held, err = tryLock(path)
		return !errors.Is(err, errHeld)
	})
	if !acquired {
		return nil, fmt.Errorf("waiting for %s: %w", path, context.Cause(ctx))
	}
	return held, err
}

// Lock acquires an exclusive lock on a file, which is created if it does not exist.
// It blocks until the lock is free or ctx ends.
func Lock(ctx context.Context, path string) (release func(), err error) {
	for {
		held, err := waitForLock(ctx, path)
		if err != nil {
			return nil, err
		}
		if held.current() {
			return held.release, nil
		}
		// The previous holder removed the file.
		held.release()
	}
}

// isHeld reports whether a process holds the lock. The file need not exist.
func isHeld(path string) (bool, error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	held, err := tryLock(path)
	switch {
	case errors.Is(err, errHeld):
		return true, nil
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	held.release()
	return false, nil
}

// current reports whether the locked file still exists at its path.
func (l *lock) current() bool {
	locked, err := l.file.Stat()
	if err != nil {
		return false
	}
	existing, err := os.Stat(l.file.Name())
	return err == nil && os.SameFile(locked, existing)
}

func (l *lock) release() { l.file.Close() }

// poll calls done until it returns true, and reports false if ctx ends before.
func poll(ctx context.Context, interval time.Duration, done func() bool) bool {
	err := wait.PollUntilContextCancel(ctx, interval, true, func(context.Context) (bool, error) { return done(), nil })
	return err == nil
}

// sleep waits, and reports false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
