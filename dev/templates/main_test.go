package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun_inlinesTheModule(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("modules/a/outputs.tf", "output \"x\" { value = 1 }\n")
	write("modules/a/main.tf", "locals {\n\n  a = 1\n}\n")
	write("modules/a/variables.tf", "variable \"v\" {}\n")
	write("modules/a/iam.tf", "# iam\n")
	write("modules/a/versions.tf", "terraform {}\n")
	write("templates/source/a.yaml.in", "spec:\n  module: modules/a\n  after: 1\n")
	write("templates/old.yaml", "gone: soon\n")

	if err := run(root); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "templates", "a.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(text), "\n")
	want := "spec:\n  module: |\n    terraform {}\n\n    variable \"v\" {}\n\n    locals {\n\n      a = 1\n    }\n\n    # iam\n\n    output \"x\" { value = 1 }\n  after: 1\n"
	if body != want {
		t.Errorf("got\n%s\nwant\n%s", body, want)
	}
	if _, err := os.Stat(filepath.Join(root, "templates", "old.yaml")); !os.IsNotExist(err) {
		t.Error("a template without a source is kept")
	}
	write("templates/source/root.tf", "import {}\n")
	write("templates/source/a.yaml.in", "spec:\n  module: modules/a + root.tf\n  after: 1\n")
	if err := run(root); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(filepath.Join(root, "templates", "a.yaml")); err != nil || !strings.Contains(string(text), "value = 1 }\n\n    import {}\n  after: 1\n") {
		t.Errorf("a file of the root module: got\n%s\n%v", text, err)
	}
	write("templates/source/other.tf", "provider {}\n")
	write("templates/source/a.yaml.in", "spec:\n  module: modules/a + root.tf + other.tf\n  after: 1\n")
	if err := run(root); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(filepath.Join(root, "templates", "a.yaml")); err != nil || !strings.Contains(string(text), "\n    import {}\n\n    provider {}\n  after: 1\n") {
		t.Errorf("several files of the root module: got\n%s\n%v", text, err)
	}
	write("modules/a/main.tf", "module \"b\" {\n  source = \"../b\"\n}\n")
	write("modules/b/main.tf", "module \"c\" {\n  source   = \"../c\"\n  for_each = {}\n}\n")
	write("modules/c/main.tf", "# c\n")
	if err := run(root); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(filepath.Join(root, "templates", "a.yaml")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"    module \"b\" {\n      source = \"./modules/b\"\n    }\n",
		"  files:\n    modules/b/main.tf: |\n      module \"c\" {\n        source   = \"../c\"\n        for_each = {}\n      }\n    modules/c/main.tf: |\n      # c\n  after: 1\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("a module that calls others: got\n%s\nwant\n%s", text, want)
		}
	}
	write("modules/c/main.tf", strings.Repeat("# c\n", maxTemplate/4))
	if err := run(root); err == nil || !strings.Contains(err.Error(), "kubectl apply") {
		t.Errorf("a template that kubectl apply refuses: %v", err)
	}
	write("modules/c/main.tf", "module \"d\" { \n  source = \"../missing\"\n}\n")
	if err := run(root); err == nil {
		t.Error("a module that does not exist is accepted")
	}
	write("templates/source/a.yaml.in", "spec: {}\n")
	if err := run(root); err == nil || !strings.Contains(err.Error(), "names the module") {
		t.Errorf("a source without a module: %v", err)
	}
}
