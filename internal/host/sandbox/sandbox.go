// Package sandbox starts programs that cannot use some files, and that cannot read the
// memory and the environment of other processes of the same user. It uses Landlock, which
// needs no privileges, where the kernel has it.
//
// Landlock has no rule that forbids: whatever is not allowed is forbidden. So the rules
// allow everything beside the hidden files, and a program cannot create files in the
// directories above a hidden one.
package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Rules are the files that a program must not use.
type Rules struct {
	// Hidden are files and directories that can be neither read nor changed. Those that
	// do not exist are ignored.
	Hidden []string
	// Visible are files and directories below hidden ones that the program can use, and
	// ReadOnly are those that it can only read.
	Visible  []string
	ReadOnly []string
}

// ErrUnavailable reports that this system has no sandbox.
var ErrUnavailable = errors.New("the kernel has no Landlock of version 2 or later (Linux 5.19)")

// rule allows the use of a file, or of everything below a directory.
type rule struct {
	path     string
	readOnly bool
}

// Exposed returns the hidden files that the rules cannot hide, because they are in a
// directory in which every user may create files: programs need that directory.
func (r Rules) Exposed() []string {
	var exposed []string
	for _, path := range resolve(r.Hidden) {
		if shared(path) != "" {
			exposed = append(exposed, path)
		}
	}
	return exposed
}

// rules returns what is allowed.
func (r Rules) rules() ([]rule, error) {
	hidden := slices.DeleteFunc(resolve(r.Hidden), func(path string) bool { return shared(path) != "" })
	if len(hidden) == 0 {
		hidden = nil
	}
	rules, err := beside(string(filepath.Separator), hidden)
	if err != nil {
		return nil, err
	}
	for _, path := range resolve(r.Visible) {
		rules = append(rules, rule{path: path})
	}
	for _, path := range resolve(r.ReadOnly) {
		rules = append(rules, rule{path: path, readOnly: true})
	}
	return rules, nil
}

// resolve returns the paths that exist, without symbolic links.
func resolve(paths []string) []string {
	var found []string
	for _, path := range paths {
		if path == "" {
			continue
		}
		if path, err := filepath.EvalSymlinks(path); err == nil && filepath.IsAbs(path) && path != string(filepath.Separator) {
			found = append(found, path)
		}
	}
	return found
}

// shared returns the directory above a path in which every user may create files, or an
// empty string.
func shared(path string) string {
	for dir := filepath.Dir(path); dir != string(filepath.Separator); dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o002 != 0 {
			return dir
		}
	}
	return ""
}

// list returns the names of the files in a directory. It omits symbolic links, which have
// the rules of their targets.
func list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, entry := range entries {
		if entry.Type()&os.ModeSymlink == 0 {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

// leading returns the names in a directory that lead to hidden files.
func leading(prefix string, hidden []string) []string {
	var names []string
	for _, path := range hidden {
		if rest, found := strings.CutPrefix(path, prefix); found {
			name, _, _ := strings.Cut(rest, string(filepath.Separator))
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// beside returns rules that allow everything below a directory except the hidden paths.
func beside(dir string, hidden []string) ([]rule, error) {
	if slices.Contains(hidden, dir) {
		return nil, nil
	}
	prefix := strings.TrimSuffix(dir, string(filepath.Separator)) + string(filepath.Separator)
	if !slices.ContainsFunc(hidden, func(path string) bool { return strings.HasPrefix(path, prefix) }) {
		return []rule{{path: dir}}, nil
	}
	names, err := list(dir)
	if errors.Is(err, os.ErrPermission) {
		// What is beside the hidden files cannot be listed, and is forbidden too.
		names, err = leading(prefix, hidden), nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the files beside hidden ones: %w", err)
	}
	var rules []rule
	for _, name := range names {
		more, err := beside(filepath.Join(dir, name), hidden)
		if err != nil {
			return nil, err
		}
		rules = append(rules, more...)
	}
	return rules, nil
}
