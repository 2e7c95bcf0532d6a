package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// workspace returns a builder with inputs, and with scripts as programs.
func workspace(t *testing.T) *builder {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("parts/fluxgen", "#!/bin/sh\necho 'kind: CustomResourceDefinition' > $2/crds.yaml\necho 'kind: Deployment' > $2/controllers.yaml\n", 0o755)
	write("parts/charts", "#!/bin/sh\nmkdir -p $3 && touch $3/small-1.0.0.tgz\n", 0o755)
	write("karpenter/go.mod", "module example.com/karpenter\n", 0o644)
	write("karpenter/go.sum", "", 0o644)
	write("source/plain.yaml", "kind: CAPTAddon\n", 0o644)
	write("source/versions.yaml", "rows: []\n", 0o644)
	write("source/flux.yaml", "kind: CAPTAddon\nspec:\n  manifests:\n  - name: crds\n    configMapRef:\n      name: fluxcd-crds\n", 0o644)
	at := func(name string) string { return filepath.Join(dir, name) }
	return &builder{source: at("source"), parts: at("parts"), karpenter: at("karpenter"), out: at("out"), charts: at("charts"), progress: io.Discard}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range paths {
		names = append(names, filepath.Base(p))
	}
	return names
}

func TestRun_writesEachAddonWithItsConfigMaps(t *testing.T) {
	b := workspace(t)
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := files(t, b.out), []string{"flux.yaml", "plain.yaml"}; !slices.Equal(got, want) {
		t.Errorf("wrote %q, want %q", got, want)
	}
	text, err := os.ReadFile(filepath.Join(b.out, "flux.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "  manifests.yaml: |\n    kind: CustomResourceDefinition\n"; !strings.HasSuffix(string(text), want) {
		t.Errorf("flux.yaml does not end with %q:\n%s", want, text)
	}
}

func TestRun_removesAddonsThatNoLongerExist(t *testing.T) {
	b := workspace(t)
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(b.source, "plain.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := files(t, b.out); !slices.Equal(got, []string{"flux.yaml"}) {
		t.Errorf("got %q, want only flux.yaml", got)
	}
}

func TestRun_rejectsAnUnknownConfigMap(t *testing.T) {
	b := workspace(t)
	addon := "    configMapRef:\n      name: other\n"
	if err := os.WriteFile(filepath.Join(b.source, "bad.yaml"), []byte(addon), 0o644); err != nil {
		t.Fatal(err)
	}
	err := b.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "bad.yaml refers to ConfigMap other") {
		t.Errorf("got %v", err)
	}
}

func TestConfigMap_rejectsTextThatKubectlCannotApply(t *testing.T) {
	for name, text := range map[string]string{
		"large": strings.Repeat("x", maxBytes+1), "tab": "a:\tb\n", "indented": " a: b\n",
	} {
		if _, err := configMap(name, text); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
