package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func names(parts []part) []string {
	var all []string
	for _, p := range parts {
		all = append(all, p.name)
	}
	return all
}

func inGroup(group string) []string {
	var all []string
	for _, p := range catalog {
		if slices.Contains(p.groups, group) {
			all = append(all, p.name)
		}
	}
	return all
}

func TestChoose_returnsProgramsAndGroupsInTheOrderOfTheCatalog(t *testing.T) {
	tests := []struct {
		names []string
		want  []string
	}{
		{nil, names(catalog)},
		{[]string{"all"}, names(catalog)},
		{[]string{"all", "tofu"}, names(catalog)},
		{[]string{"tofu"}, []string{"tofu"}},
		{[]string{"tofu", "etcd"}, []string{"etcd", "tofu"}},
		{[]string{"tofu", "tofu"}, []string{"tofu"}},
		{[]string{groupTest}, inGroup(groupTest)},
		{[]string{groupLint, "etcd"}, append([]string{"etcd"}, inGroup(groupLint)...)},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.names, " "), func(t *testing.T) {
			chosen, err := choose(tt.names)
			if err != nil {
				t.Fatal(err)
			}
			if got := names(chosen); !slices.Equal(got, tt.want) {
				t.Errorf("chose %q, want %q", got, tt.want)
			}
		})
	}
}

func TestChoose_rejectsUnknownNames(t *testing.T) {
	for _, requested := range [][]string{{"tofuu"}, {"all", "tofuu"}, {"tofu", "tofuu"}, {"tofuu", "test"}} {
		_, err := choose(requested)
		if err == nil {
			t.Errorf("%q was accepted", requested)
			continue
		}
		for _, word := range []string{`"tofuu"`, groupTest, "kube-apiserver"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q does not name %s", err, word)
			}
		}
	}
}

func TestCatalog_isConsistent(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range catalog {
		if seen[p.name] {
			t.Errorf("%s is in the catalog twice", p.name)
		}
		seen[p.name] = true
		if slices.Contains(groupNames(), p.name) {
			t.Errorf("%s is the name of a program and of a group", p.name)
		}
		if len(p.groups) == 0 {
			t.Errorf("%s is in no group", p.name)
		}
		if _, err := (store{modules: "../bin"}).pin(p); err != nil {
			t.Errorf("%s is not pinned: %v", p.name, err)
		}
	}
}

// The quickstart starts what internal/local names, and its add-ons are written by two
// programs. It must not wait for others.
func TestCatalog_quickstartHasWhatTheEnvironmentStarts(t *testing.T) {
	named := stringsOf(t, "../../internal/local")
	// The name of a field.
	delete(named, "helm")
	want := []string{"charts", "fluxgen"}
	for _, p := range catalog {
		if named[p.name] && !slices.Contains(want, p.name) {
			want = append(want, p.name)
		}
	}
	got := inGroup(groupQuickstart)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("group %s is\n%q, want\n%q", groupQuickstart, got, want)
	}
}

// stringsOf returns the string literals of the Go files below a directory, without
// tests.
func stringsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if literal, is := node.(*ast.BasicLit); is && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil {
					found[text] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
