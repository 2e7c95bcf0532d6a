package main

import (
	"fmt"
	"os"
	"syscall"
)

// checkOwned returns an error if others than root and this user can change a file or a
// directory.
func checkOwned(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	stat, is := info.Sys().(*syscall.Stat_t)
	switch mode := info.Mode(); {
	case !is:
	case stat.Uid != 0 && int(stat.Uid) != os.Getuid():
		return fmt.Errorf("%s belongs to user %d", path, stat.Uid)
	case mode&0o002 != 0:
		return fmt.Errorf("all users can write to %s (mode %s)", path, mode)
	case mode&0o020 != 0 && stat.Gid != 0 && int(stat.Gid) != os.Getgid():
		return fmt.Errorf("group %d can write to %s (mode %s)", stat.Gid, path, mode)
	}
	return nil
}

// owned reports whether only root and this user can change a file or a directory.
func owned(path string) bool { return checkOwned(path) == nil }
