package gomod

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestDownload_usesTheVersionOfGoMod(t *testing.T) {
	dir, err := Download(t.Context(), "..", "golang.org/x/sync")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(filepath.Base(dir), "sync@v") {
		t.Errorf("the directory is %s", dir)
	}
}

func TestDownload_returnsTheReason(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	for _, test := range []struct{ name, dir, module, want string }{
		{"an unknown module", "..", "example.com/none@v1.0.0", "module lookup disabled"},
		{"an invalid version", "..", "example.com/none@", "downloading example.com/none@: "},
		{"a missing directory", "missing", "golang.org/x/sync", "no such file or directory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, err := Download(t.Context(), test.dir, test.module)
			if dir != "" || err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Download returned %q and the error %v", dir, err)
			}
		})
	}
}
