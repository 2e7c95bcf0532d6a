//go:build linux

package host

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/procfs"
)

func TestStartTime(t *testing.T) {
	const fields = " 1 17 17 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 2854912 1 18446744073709551615 1 1 1 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
	tests := []struct {
		name string
		stat string
		want int64
		err  string
	}{
		{name: "a plain name", stat: "17 (runner) S" + fields, want: 4711},
		{name: "a name with spaces", stat: "17 (tofu apply) R" + fields, want: 4711},
		{name: "a name with parentheses", stat: "17 (a) S 1 2 (b)) S" + fields, want: 4711},
		{name: "empty", err: "unexpected format"},
		{name: "a zombie", stat: "17 (runner) Z" + fields, err: "process 17 has exited"},
		{name: "a dead process", stat: "17 (runner) X" + fields, err: "process 17 has exited"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			started, err := startTime(procWith(t, tt.stat), 17)
			g.Expect(started).To(Equal(tt.want))
			if tt.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(ContainSubstring(tt.err)))
			}
		})
	}
	NewWithT(t).Expect(startTime(procWith(t, "17 (runner) Z"+fields), 17)).Error().To(MatchError(os.ErrNotExist))
	NewWithT(t).Expect(startTime(procWith(t, "17 (runner) S"+fields), 18)).Error().To(MatchError(os.ErrNotExist))
}

// procWith returns a proc filesystem with the process 17.
func procWith(t *testing.T, stat string) procfs.FS {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(os.Mkdir(filepath.Join(dir, "17"), 0o700)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "17", "stat"), []byte(stat), 0o600)).To(Succeed())
	proc, err := procfs.NewFS(dir)
	g.Expect(err).NotTo(HaveOccurred())
	return proc
}

func TestBootID(t *testing.T) {
	g := NewWithT(t)
	g.Expect(BootID()).To(MatchRegexp(`^[0-9a-f-]{36}$`))
	g.Expect(BootID()).To(Equal(BootID()))
}
