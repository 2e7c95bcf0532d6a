package main

import (
	"fmt"
	"os"
	"path"
	"strings"
)

// skip is a line of the list: the tests of a package that may be skipped, and why.
type skip struct {
	// pkg is the end of an import path, and test a pattern of path.Match. A pattern without
	// a slash matches the subtests too.
	pkg, test, reason string
}

// readSkips reads a list with lines of the form "PACKAGE TEST REASON". Lines that begin
// with # are comments.
func readSkips(file string) ([]skip, error) {
	if file == "" {
		return nil, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the list of skipped tests: %w", err)
	}
	var all []skip
	for i, line := range strings.Split(string(content), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return nil, fmt.Errorf("%s:%d: write PACKAGE TEST REASON", file, i+1)
		}
		if _, err := path.Match(fields[1], ""); err != nil {
			return nil, fmt.Errorf("%s:%d: %q is not a pattern: %w", file, i+1, fields[1], err)
		}
		all = append(all, skip{pkg: fields[0], test: fields[1], reason: strings.Join(fields[2:], " ")})
	}
	return all, nil
}

// reasonFor returns why a test may be skipped, and false if it may not.
func reasonFor(allowed []skip, id name) (string, bool) {
	top, _, _ := strings.Cut(id.test, "/")
	for _, s := range allowed {
		test := top
		if strings.Contains(s.test, "/") {
			test = id.test
		}
		matched, _ := path.Match(s.test, test)
		if matched && (id.pkg == s.pkg || strings.HasSuffix(id.pkg, "/"+s.pkg)) {
			return s.reason, true
		}
	}
	return "", false
}
