package host_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/host"
)

func TestWriteFile(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	expect := func(path, content string, mode os.FileMode) {
		t.Helper()
		g.Expect(os.ReadFile(path)).To(BeEquivalentTo(content))
		info, err := os.Stat(path)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(info.Mode().Perm()).To(Equal(mode))
	}
	g.Expect(host.WriteFile(path, []byte("first"), 0o600)).To(Succeed())
	expect(path, "first", 0o600)
	g.Expect(os.Link(path, link)).To(Succeed())

	g.Expect(host.WriteFile(path, []byte("second"), 0o644)).To(Succeed())
	expect(path, "second", 0o644)
	expect(link, "first", 0o600)
}

func TestWriteFile_leavesNothingBehindWhenItFails(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(host.WriteFile(filepath.Join(dir, "missing", "file"), nil, 0o600)).To(MatchError(os.ErrNotExist))

	occupied := filepath.Join(dir, "occupied")
	g.Expect(os.Mkdir(occupied, 0o700)).To(Succeed())
	g.Expect(host.WriteFile(occupied, nil, 0o600)).To(MatchError(ContainSubstring("writing occupied")))
	g.Expect(os.ReadDir(dir)).To(HaveLen(1))
}

func TestLogTail(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	if err := os.WriteFile(path, []byte("first line\nlast line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, path, want string
		limit            int
	}{
		{"a short log", path, "first line\nlast line", 100},
		{"a long log", path, "last line", 15},
		{"no log", filepath.Join(dir, "missing"), "it has no log", 100},
		{"an unreadable log", dir, "read " + dir + ": is a directory", 1000},
	} {
		t.Run(test.name, func(t *testing.T) {
			NewWithT(t).Expect(host.LogTail(test.path, test.limit)).To(ContainSubstring(test.want))
		})
	}
}
