package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const pollInterval = 20 * time.Millisecond

// errHeld says that somebody else holds a lock.
var errHeld = errors.New("the lock is held")

// lock is an exclusive lock on a file. The kernel lets go of it when every
// process that has it open has ended, in whatever way.
type lock struct{ file *os.File }

// tryLock returns errHeld when somebody else holds the lock.
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

// waitForLock blocks until the lock is free or ctx ends.
func waitForLock(ctx context.Context, path string) (*lock, error) {
	for {
		held, err := tryLock(path)
		if !errors.Is(err, errHeld) {
			return held, err
		}
		if !pause(ctx, pollInterval) {
			return nil, fmt.Errorf("waiting for %s: %w", path, context.Cause(ctx))
		}
	}
}

// Lock takes an exclusive lock on a file, which is made if it does not exist,
// and blocks until it is free or ctx ends.
func Lock(ctx context.Context, path string) (release func(), err error) {
	for {
		held, err := waitForLock(ctx, path)
		if err != nil {
			return nil, err
		}
		if held.current() {
			return held.release, nil
		}
		// Whoever held it before removed the file.
		held.release()
	}
}

// isHeld tells whether somebody holds the lock; a file that does not exist is
// held by nobody.
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

// current tells whether the path still leads to the locked file.
func (l *lock) current() bool {
	mine, err := l.file.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(l.file.Name())
	return err == nil && os.SameFile(mine, now)
}

func (l *lock) release() { l.file.Close() }

// pause waits, and reports false when ctx ended meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
