package host

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Reserve reserves space for a file, so that it can be written even if the disk is full
// by then. The size of the file stays the same. It does nothing on a file system that
// cannot reserve space.
func Reserve(file *os.File, size int64) error {
	err := unix.EINTR
	for errors.Is(err, unix.EINTR) {
		err, _ = unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size).(unix.Errno)
	}
	if !slices.Contains([]unix.Errno{unix.ENOSPC, unix.EDQUOT, unix.EFBIG}, err) {
		return nil
	}
	return fmt.Errorf("reserving space: %w", &os.PathError{Op: "fallocate", Path: file.Name(), Err: err})
}
