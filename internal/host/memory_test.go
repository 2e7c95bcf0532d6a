package host

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestMemoryPeak(t *testing.T) {
	for name, tc := range map[string]struct {
		files       map[string]string
		peak, limit int64
	}{
		"no control group":          {},
		"no limit":                  {files: map[string]string{"memory.max": "max\n", "memory.peak": "17\n"}},
		"a limit":                   {files: map[string]string{"memory.max": "4096\n", "memory.peak": "1024\n"}, peak: 1024, limit: 4096},
		"an old kernel":             {files: map[string]string{"memory.max": "4096\n"}, peak: 4096, limit: 4096},
		"version 1":                 {files: map[string]string{"memory/memory.limit_in_bytes": "4096\n", "memory/memory.max_usage_in_bytes": "512\n"}, peak: 512, limit: 4096},
		"version 1 without a limit": {files: map[string]string{"memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/memory.max_usage_in_bytes": "512\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			root := t.TempDir()
			for file, text := range tc.files {
				path := filepath.Join(root, file)
				g.Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
				g.Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
			}
			peak, limit := memoryPeak(root)
			g.Expect([]int64{peak, limit}).To(Equal([]int64{tc.peak, tc.limit}))
		})
	}
}
