package host

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Reserve reserves space for a file, so that it can be written even if the disk is full
// by then. The size of the file stays the same. It does nothing on a file system that
// cannot reserve space.
func Reserve(file *os.File, size int64) error {
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		err = unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
	}
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) && !errors.Is(err, unix.EFBIG) {
		return nil
	}
	return fmt.Errorf("reserving space: %w", &os.PathError{Op: "fallocate", Path: file.Name(), Err: err})
}
