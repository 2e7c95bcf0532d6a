package main

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// maxLinks is how many links a path may have, as in Linux.
const maxLinks = 40

// account is the user of this process.
type account struct {
	uid, gid int
	// unmapped is the ID that a user namespace, such as that of a rootless container, shows for
	// every user outside of it. Outside of user namespaces it is -1.
	unmapped int
}

func currentAccount() account {
	uidMap, _ := os.ReadFile("/proc/self/uid_map")
	overflow, _ := os.ReadFile("/proc/sys/kernel/overflowuid")
	return account{uid: os.Getuid(), gid: os.Getgid(), unmapped: unmappedID(string(uidMap), string(overflow))}
}

// unmappedID returns the ID of users outside of a user namespace, or -1 if the map contains
// all users.
func unmappedID(uidMap, overflow string) int {
	fields := strings.Fields(uidMap)
	if len(fields) == 0 || slices.Equal(fields, []string{"0", "0", "4294967295"}) {
		return -1
	}
	id, err := strconv.Atoi(strings.TrimSpace(overflow))
	if err != nil {
		return -1
	}
	return id
}

// foreign returns how others can change a file or directory, or "" if only root and this user
// can. In a directory with the sticky bit, such as /tmp, others cannot replace files. Above the
// checked path, an owner outside of the user namespace is accepted: /, /home and /tmp of the
// machine belong to its root, who has no ID in a container.
func (a account) foreign(uid, gid int, mode os.FileMode, above bool) string {
	outside := above && uid == a.unmapped
	switch {
	case uid != 0 && uid != a.uid && !outside:
		return fmt.Sprintf("it belongs to user %s (mode %s)", userName(uid), mode)
	case mode&(os.ModeSymlink|os.ModeSticky) != 0:
		return ""
	case mode&0o002 != 0:
		return fmt.Sprintf("all users can write to it (mode %s)", mode)
	case mode&0o020 != 0 && gid != 0 && gid != a.gid:
		return fmt.Sprintf("group %s can write to it (mode %s)", groupName(gid), mode)
	}
	return ""
}

func userName(id int) string {
	if found, err := user.LookupId(strconv.Itoa(id)); err == nil {
		return found.Username
	}
	return strconv.Itoa(id)
}

func groupName(id int) string {
	if found, err := user.LookupGroupId(strconv.Itoa(id)); err == nil {
		return found.Name
	}
	return strconv.Itoa(id)
}

// checkOwned returns an error if others than root and this user can replace a file: it names the
// first of the directories, links and targets of links on the way to it that they can change.
func checkOwned(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	who, links := currentAccount(), 0
	at, rest := string(filepath.Separator), elements(path)
	for {
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		if stat, is := info.Sys().(*syscall.Stat_t); is {
			if reason := who.foreign(int(stat.Uid), int(stat.Gid), info.Mode(), len(rest) > 0); reason != "" {
				return fmt.Errorf("%s: %s", at, reason)
			}
		}
		if info.Mode()&os.ModeSymlink != 0 {
			target, err := os.Readlink(at)
			if err != nil {
				return err
			}
			if links++; links > maxLinks {
				return fmt.Errorf("%s: too many links", at)
			}
			at, rest = filepath.Dir(at), append(elements(target), rest...)
			if filepath.IsAbs(target) {
				at = string(filepath.Separator)
			}
		}
		if len(rest) == 0 {
			return nil
		}
		// What is before ".." is not a link any more.
		at, rest = filepath.Join(at, rest[0]), rest[1:]
	}
}

// elements returns the names of a path. It keeps "..", which is not the directory above in the
// text if the name before it is a link.
func elements(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == filepath.Separator })
}

// owned reports whether only root and this user can replace a file.
func owned(path string) bool { return checkOwned(path) == nil }
