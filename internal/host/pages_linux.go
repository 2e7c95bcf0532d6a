package host

import (
	"bufio"
	"encoding/binary"
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

// pieceSize is how much of the program's file the kernel maps at once.
const pieceSize = 16 << 10

// Program is the program's file in memory.
type Program struct{ mappings []mapping }

// OpenProgram returns the program that runs. From now on the kernel maps few of its pages
// at once. It maps up to 16 pages around each that is used, most of which are never used,
// but only in the same mapping, so the mappings are split.
func OpenProgram() (*Program, error) {
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, fmt.Errorf("finding the program's file: %w", err)
	}
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil, fmt.Errorf("reading the mappings of memory: %w", err)
	}
	defer func() { _ = file.Close() }()
	found, err := parseMappings(file)
	if err != nil {
		return nil, err
	}
	p := &Program{}
	for _, m := range found {
		// Only pages that equal the file can be read from it again.
		if m.path != path || m.changed || m.permissions != "r--p" && m.permissions != "r-xp" {
			continue
		}
		p.mappings = append(p.mappings, m)
		m.split()
	}
	return p, nil
}

// split makes a mapping many small ones. Neighbours differ in whether a core dump has
// them, which has none of a program's file anyway. Kernels that refuse the advice keep the
// mapping as it is.
func (m mapping) split() {
	// A huge page would map 2 MiB for each page that is used.
	_ = advise(m.start, m.end, unix.MADV_NOHUGEPAGE)
	for start := m.start; start+pieceSize < m.end; start += 2 * pieceSize {
		if err := advise(start, start+pieceSize, unix.MADV_DONTDUMP); err != nil {
			return
		}
	}
}

// ReleasePages unmaps the pages of the program's file, of which most are rarely used. The
// kernel maps those that are used again from its page cache. It keeps pages that differ
// from the file: a debugger or a probe changes the program while it runs.
func (p *Program) ReleasePages() error {
	pages, err := os.Open("/proc/self/pagemap")
	if errors.Is(err, os.ErrNotExist) {
		// Kernels without it have no probes either.
		pages, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("reading the state of pages: %w", err)
	}
	defer func() { _ = pages.Close() }()
	for _, m := range p.mappings {
		if err := m.release(pages); err != nil {
			return fmt.Errorf("releasing pages: %w", err)
		}
	}
	return nil
}

// The bits of an entry of /proc/[pid]/pagemap: whether the page is in memory, is in swap,
// and is of a file.
const pagePresent, pageSwapped, pageOfFile = 1 << 63, 1 << 62, 1 << 61

// release unmaps the pages that equal the file.
func (m mapping) release(pages *os.File) error {
	const entry = 8
	size := uintptr(os.Getpagesize())
	buffer := make([]byte, 512*entry)
	from := m.start
	for start := m.start; pages != nil && start < m.end; start += uintptr(len(buffer)) / entry * size {
		n, err := pages.ReadAt(buffer[:min(uintptr(len(buffer)), (m.end-start)/size*entry)], int64(start/size*entry))
		if err != nil {
			return err
		}
		for i := range n / entry {
			state := binary.NativeEndian.Uint64(buffer[i*entry:])
			if state&pageSwapped == 0 && (state&pagePresent == 0 || state&pageOfFile != 0) {
				continue
			}
			changed := start + uintptr(i)*size
			if changed > from {
				if err := advise(from, changed, unix.MADV_DONTNEED); err != nil {
					return err
				}
			}
			from = changed + size
		}
	}
	if from >= m.end {
		return nil
	}
	return advise(from, m.end, unix.MADV_DONTNEED)
}

func advise(start, end, advice uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_MADVISE, start, end-start, advice); errno != 0 {
		return errno
	}
	return nil
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
