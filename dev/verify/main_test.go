package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree writes a versions.mk, all go.mod files and the add-ons, which agree.
func tree(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	versions := map[string]string{}
	mods := map[string]string{}
	for i, pin := range pins {
		if _, seen := versions[pin.variable]; !seen {
			versions[pin.variable] = fmt.Sprintf("v1.%d.0", i)
		}
		for _, file := range pin.files {
			mods[file] += fmt.Sprintf("\t%s %s // indirect\n", pin.module, versions[pin.variable])
		}
	}
	var text strings.Builder
	text.WriteString("GO_VERSION := v1.26.8\n")
	for _, file := range toolchains {
		mods[file] += ""
	}
	for _, variable := range slices.Sorted(maps.Keys(versions)) {
		fmt.Fprintf(&text, "%s := %s\n", variable, versions[variable])
	}
	write(t, filepath.Join(root, "versions.mk"), text.String())
	for file, lines := range mods {
		header := "module m\n\ngo 1.26.6\n"
		if slices.Contains(toolchains, file) {
			header += "\ntoolchain go1.26.8\n"
		}
		write(t, filepath.Join(root, file), header+"\nrequire (\n"+lines+")\n")
	}
	for _, addon := range addons {
		write(t, filepath.Join(root, addon.file), "spec:\n  versions:\n    version: "+strings.TrimPrefix(versions[addon.variable], "v")+"\n")
	}
	return root
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// edit replaces text in a file that must have it.
func edit(t *testing.T, path, old, replacement string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("%s has no %q", path, old)
	}
	write(t, path, strings.Replace(string(text), old, replacement, 1))
}

func TestVerify_passesForThisTree(t *testing.T) {
	if err := verifyVersions("../.."); err != nil {
		t.Error(err)
	}
}

func TestVerify_reportsEachMismatch(t *testing.T) {
	tests := []struct {
		name   string
		change func(t *testing.T, root string)
		want   []string
	}{
		{
			"another version in an add-on",
			func(t *testing.T, root string) {
				edit(t, filepath.Join(root, "addons", "fluxcd.yaml"), "version: 1.", "version: 9.")
			},
			[]string{"addons/fluxcd.yaml", `installs "9.`, "versions.mk"},
		},
		{
			"another version in a go.mod",
			func(t *testing.T, root string) {
				edit(t, filepath.Join(root, "dev/bin/kwok/go.mod"), "sigs.k8s.io/kwok v1.", "sigs.k8s.io/kwok v2.")
			},
			[]string{"dev/bin/kwok/go.mod: sigs.k8s.io/kwok is v2.", "versions.mk says v1."},
		},
		{
			"a module requires a later Go",
			func(t *testing.T, root string) {
				edit(t, filepath.Join(root, "dev/bin/kwok/go.mod"), "go 1.26.6", "go 1.26.10")
			},
			[]string{"dev/bin/kwok/go.mod: requires Go 1.26.10, but versions.mk says 1.26.8"},
		},
		{
			"another toolchain in a go.mod",
			func(t *testing.T, root string) {
				edit(t, filepath.Join(root, "api/go.mod"), "toolchain go1.26.8", "toolchain go1.26.7")
			},
			[]string{`api/go.mod: toolchain is "1.26.7", but versions.mk says go1.26.8`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := tree(t)
			tt.change(t, root)
			err := verifyVersions(root)
			if err == nil {
				t.Fatal("nothing was reported")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not contain %q", err, want)
				}
			}
		})
	}
}
