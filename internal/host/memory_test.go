package host

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestMemoryLimit(t *testing.T) {
	for name, tc := range map[string]struct {
		file, text string
		limit      int64
	}{
		"no control group":          {},
		"no limit":                  {file: "memory.max", text: "max\n"},
		"a limit":                   {file: "memory.max", text: "4096\n", limit: 4096},
		"version 1":                 {file: "memory/memory.limit_in_bytes", text: "4096\n", limit: 4096},
		"version 1 without a limit": {file: "memory/memory.limit_in_bytes", text: "9223372036854771712\n"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			root := t.TempDir()
			if tc.file != "" {
				path := filepath.Join(root, tc.file)
				g.Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
				g.Expect(os.WriteFile(path, []byte(tc.text), 0o600)).To(Succeed())
			}
			g.Expect(memoryLimit(root)).To(Equal(tc.limit))
		})
	}
}
