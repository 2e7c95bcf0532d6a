package debian

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Package is one pinned package of one architecture.
type Package struct {
	Name    string
	Version string
	// Archive is the directory of the archive on a mirror.
	Archive string
	// Path is the path of the file in the archive.
	Path   string
	Size   int64
	SHA256 string
}

// Lock pins the packages of all architectures.
type Lock struct {
	// Release is the number of Debian's release, for example 13.
	Release string
	// Date is the date of the newest index. It is the time of generated files, and
	// the packages are in a snapshot of the day after it.
	Date time.Time
	// Packages are the packages of each architecture, sorted by name.
	Packages map[string][]Package
}

const lockHeader = `# Debian packages of the images. "make debian-lock" writes this file.
# ARCHITECTURE PACKAGE VERSION ARCHIVE PATH SIZE SHA256
`

// Write writes the lock as text, one package per line.
func (l Lock) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprint(b, lockHeader)
	fmt.Fprintln(b, "release", l.Release)
	fmt.Fprintln(b, "date", l.Date.UTC().Format(time.RFC3339))
	for _, architecture := range l.Architectures() {
		for _, p := range l.Packages[architecture] {
			fmt.Fprintln(b, architecture, p.Name, p.Version, p.Archive, p.Path, p.Size, p.SHA256)
		}
	}
	return b.Flush()
}

// Architectures returns the architectures of the lock, sorted.
func (l Lock) Architectures() []string {
	names := make([]string, 0, len(l.Packages))
	for name := range l.Packages {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// ReadLock reads what Write has written.
func ReadLock(r io.Reader) (Lock, error) {
	l := Lock{Packages: map[string][]Package{}}
	lines := bufio.NewScanner(r)
	for number := 1; lines.Scan(); number++ {
		words := strings.Fields(lines.Text())
		var err error
		switch {
		case len(words) == 0 || strings.HasPrefix(words[0], "#"):
		case len(words) == 2 && words[0] == "release":
			l.Release = words[1]
		case len(words) == 2 && words[0] == "date":
			l.Date, err = time.Parse(time.RFC3339, words[1])
		case len(words) == 7:
			p := Package{Name: words[1], Version: words[2], Archive: words[3], Path: words[4], SHA256: words[6]}
			p.Size, err = strconv.ParseInt(words[5], 10, 64)
			l.Packages[words[0]] = append(l.Packages[words[0]], p)
		default:
			err = fmt.Errorf("%d words", len(words))
		}
		if err != nil {
			return l, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return l, err
	}
	if l.Date.IsZero() || l.Release == "" {
		return l, fmt.Errorf("the release or its date is missing")
	}
	return l, nil
}
