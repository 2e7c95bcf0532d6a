package debian

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Resolve returns the packages with the given names and those that they depend on,
// sorted by name. It never adds an excluded package, even if another one depends on it.
func (u *Universe) Resolve(names, excluded []string) ([]Package, error) {
	chosen := map[string]Package{}
	queue := slices.Clone(names)
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if _, done := chosen[name]; done {
			continue
		}
		entry, found := u.packages[name]
		if !found {
			return nil, fmt.Errorf("package %s does not exist", name)
		}
		size, err := strconv.ParseInt(entry["Size"], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("reading the size of package %s: %w", name, err)
		}
		chosen[name] = Package{
			Name: name, Version: entry["Version"], Archive: entry[archiveField], Path: entry["Filename"], Size: size, SHA256: entry["SHA256"],
		}
		for _, field := range []string{"Pre-Depends", "Depends"} {
			for _, alternatives := range relations(entry[field]) {
				next, err := u.satisfy(alternatives, excluded)
				if err != nil {
					return nil, fmt.Errorf("resolving package %s: %w", name, err)
				}
				if next != "" {
					queue = append(queue, next)
				}
			}
		}
	}
	list := make([]Package, 0, len(chosen))
	for _, p := range chosen {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b Package) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// satisfy returns the package for a dependency with alternatives, or nothing if one of
// them is excluded.
func (u *Universe) satisfy(alternatives, excluded []string) (string, error) {
	for _, name := range alternatives {
		if slices.Contains(excluded, name) {
			return "", nil
		}
	}
	for _, name := range alternatives {
		if _, found := u.packages[name]; found {
			return name, nil
		}
		if providers := u.providers[name]; len(providers) > 0 {
			return providers[0], nil
		}
	}
	return "", fmt.Errorf("no package satisfies %s", strings.Join(alternatives, " | "))
}

// relations returns the names in a list of relations, for each the alternatives. The
// suites of a stable release are consistent, so versions are not compared.
func relations(field string) [][]string {
	var list [][]string
	for relation := range strings.SplitSeq(field, ",") {
		var names []string
		for alternative := range strings.SplitSeq(relation, "|") {
			name, _, _ := strings.Cut(strings.TrimSpace(alternative), " ")
			name, _, _ = strings.Cut(name, ":")
			if name != "" {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			list = append(list, names)
		}
	}
	return list
}

// Closure returns the names of packages that depend on each other according to their own
// control files, starting with the given ones.
func Closure(debs map[string]*Deb, names, excluded []string) ([]string, error) {
	u := &Universe{packages: map[string]stanza{}}
	for name, deb := range debs {
		err := readStanzas(bytes.NewReader(deb.Control), indexFields, func(p stanza) {
			p["Size"] = "0"
			u.packages[name] = p
		})
		if err != nil {
			return nil, fmt.Errorf("reading the control file of %s: %w", name, err)
		}
	}
	u.provide()
	packages, err := u.Resolve(names, excluded)
	if err != nil {
		return nil, err
	}
	closure := make([]string, 0, len(packages))
	for _, p := range packages {
		closure = append(closure, p.Name)
	}
	return closure, nil
}

// provide records which packages provide virtual ones.
func (u *Universe) provide() {
	u.providers = map[string][]string{}
	for name, p := range u.packages {
		for _, provided := range relations(p["Provides"]) {
			u.providers[provided[0]] = append(u.providers[provided[0]], name)
		}
	}
	for _, names := range u.providers {
		slices.Sort(names)
	}
}
