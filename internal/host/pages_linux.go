package host

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mapping is a part of the memory of a process.
type mapping struct {
	start, end uintptr
	// permissions are those of /proc/[pid]/maps, such as r-xp.
	permissions string
	path        string
	// changed reports that some of its pages differ from the file.
	changed bool
}

// ReleasePages unmaps the pages of the program's file, of which most are only used when the
// program starts. The kernel maps those that are used later again, from its page cache.
func ReleasePages() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("finding the program's file: %w", err)
	}
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("reading the mappings of memory: %w", err)
	}
	defer func() { _ = file.Close() }()
	mappings, err := parseMappings(file)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range mappings {
		// Only pages that equal the file can be read from it again.
		if m.path != program || m.changed || m.permissions != "r--p" && m.permissions != "r-xp" {
			continue
		}
		// A huge page would map 2 MiB for each page that is used. Kernels without huge pages
		// refuse the advice.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_NOHUGEPAGE)
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED); errno != 0 {
			errs = append(errs, fmt.Errorf("releasing pages: %w", errno))
		}
	}
	return errors.Join(errs...)
}

// parseMappings reads the format of /proc/[pid]/smaps.
func parseMappings(r io.Reader) ([]mapping, error) {
	var found []mapping
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		fields := strings.Fields(scanner.Text())
		if len(fields) < 2 {
			continue
		}
		if strings.HasSuffix(fields[0], ":") {
			// A page that was changed and then swapped out is not in Anonymous, which comes
			// first.
			if last := len(found) - 1; last >= 0 && fields[0] == "Anonymous:" {
				found[last].changed = fields[1] != "0"
			} else if last >= 0 && fields[0] == "Swap:" && fields[1] != "0" {
				found[last].changed = true
			}
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		start, err := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err := errors.Join(err, err2); err != nil {
			return nil, fmt.Errorf("parsing the mappings of memory: %w", err)
		}
		// A mapping counts as changed until the line about it is read.
		m := mapping{start: uintptr(start), end: uintptr(end), permissions: fields[1], changed: true}
		if len(fields) > 5 {
			m.path = strings.Join(fields[5:], " ")
		}
		found = append(found, m)
	}
	return found, scanner.Err()
}
