package main

import (
	"path/filepath"
	"strings"
	"testing"
)

const drawing = "text\n```mermaid\nflowchart TD\n  m[\"cmd/manager\"]\n  cli[\"cli<br/>commands\"]\n  addon[\"addon\"]\n  t[\"terraform\"]\n\n" +
	"  m --> cli\n  cli --> addon & t\n```\n"

func TestVerifyImports_comparesThePictureWithTheImports(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, architecture), drawing)
	write(t, filepath.Join(root, "cmd/manager/main.go"), "package main\n\nimport _ \"github.com/appthrust/capt/internal/cli\"\n")
	write(t, filepath.Join(root, "internal/cli/cli.go"), "package cli\n\nimport (\n\t_ \"fmt\"\n\n\t_ \"github.com/appthrust/capt/internal/addon/chart\"\n\t_ \"github.com/appthrust/capt/internal/message\"\n\t_ \"github.com/appthrust/capt/internal/terraform\"\n)\n")
	write(t, filepath.Join(root, "internal/cli/cli_test.go"), "package cli\n\nimport _ \"github.com/appthrust/capt/internal/manager\"\n")
	write(t, filepath.Join(root, "internal/cli/clitest/fake.go"), "package clitest\n\nimport _ \"github.com/appthrust/capt/internal/testenv\"\n")
	if err := verifyImports(root); err != nil {
		t.Fatal(err)
	}

	write(t, filepath.Join(root, "internal/addon/render.go"), "package addon\n\nimport _ \"github.com/appthrust/capt/internal/cli/text\"\n")
	write(t, filepath.Join(root, "cmd/manager/main.go"), "package main\n")
	err := verifyImports(root)
	for _, want := range []string{
		"the picture lacks the arrow addon --> cli, which internal/addon/render.go imports",
		"the picture draws cmd/manager --> cli, but there is no such import",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
