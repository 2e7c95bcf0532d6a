package archive

import (
	"archive/tar"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestContent_hasTheSameDigestInAnArchive(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	for name, content := range map[string]string{"main.tf": "x", "deep/er/script.sh": "#!", ".git/config": "left out"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	}
	g.Expect(os.Chmod(filepath.Join(dir, "deep", "er", "script.sh"), 0o755)).To(Succeed())
	g.Expect(os.Symlink("main.tf", filepath.Join(dir, "link.tf"))).To(Succeed())
	file := filepath.Join(t.TempDir(), "archive")
	writer, err := NewWriter(file)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(writer.AddRoot("deep/er")).To(Succeed())
	g.Expect(writer.AddTree(dir, PackageDir)).To(Succeed())
	digest, err := writer.Close()
	g.Expect(err).NotTo(HaveOccurred())
	archive, err := os.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(Digest(archive)).To(Equal(digest))

	to := t.TempDir()
	g.Expect(Unpack(archive, to, ".terraform/modules")).To(Equal(filepath.Join("deep", "er")))
	g.Expect(os.ReadFile(filepath.Join(to, "link.tf"))).To(BeEquivalentTo("x"))
	info, err := os.Stat(filepath.Join(to, "deep", "er", "script.sh"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o755)))
	g.Expect(filepath.Join(to, ".git")).NotTo(BeAnExistingFile())
}

func TestUnpack_staysInItsDirectory(t *testing.T) {
	for name, entries := range map[string][]tar.Header{
		"a path with dots":      {{Name: "package/../../escaped"}},
		"a path through a link": {{Name: "package/a", Typeflag: tar.TypeSymlink, Linkname: ".."}, {Name: "package/a/escaped"}},
		"modules with dots":     {{Name: "modules/../../../../escaped"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			parent := t.TempDir()
			dir := filepath.Join(parent, "module")
			g.Expect(os.Mkdir(dir, 0o700)).To(Succeed())
			_, err := Unpack(packed(g, entries...), dir, ".terraform/modules")
			g.Expect(err).To(HaveOccurred())
			g.Expect(filepath.Join(parent, "escaped")).NotTo(BeAnExistingFile())
		})
	}
}

func TestSortManifest(t *testing.T) {
	g := NewWithT(t)
	g.Expect(sortManifest([]byte(`{"Modules":[{"Key":"b","Dir":"2"},{"Key":"a","Dir":"1"}]}`))).
		To(Equal(sortManifest([]byte(`{"Modules":[{"Dir":"1","Key":"a"},{"Dir":"2","Key":"b"}]}`))))
	g.Expect(sortManifest([]byte("{"))).To(BeEquivalentTo("{"))
}

// TestArchiveDigest_hasNoCollisions compares archives that differ only in what a digest
// may overlook.
func TestArchiveDigest_hasNoCollisions(t *testing.T) {
	g := NewWithT(t)
	pack := func(first tar.Header, content string, second ...tar.Header) []byte {
		first.PAXRecords = map[string]string{"content": content}
		return packed(g, append([]tar.Header{first}, second...)...)
	}
	digest := func(archive []byte) string {
		d, err := Digest(archive)
		g.Expect(err).NotTo(HaveOccurred())
		return d
	}
	sum := sumOf(&tar.Header{Name: "package/a.tf"}, []byte("1"))
	seen := map[string]string{}
	for name, archive := range map[string][]byte{
		"two files":       pack(tar.Header{Name: "package/a.tf"}, "1", fileEntry("package/b.tf", "2")),
		"one merged file": pack(tar.Header{Name: sum + "\npackage/b.tf"}, "2"),
		"executable":      pack(tar.Header{Name: "package/a.tf", Mode: 0o700}, "1", fileEntry("package/b.tf", "2")),
		"a link":          pack(tar.Header{Name: "package/a.tf", Typeflag: tar.TypeSymlink, Linkname: "1"}, "", fileEntry("package/b.tf", "2")),
		"a file like it":  pack(tar.Header{Name: "package/a.tf"}, "link 1", fileEntry("package/b.tf", "2")),
	} {
		d := digest(archive)
		g.Expect(seen).NotTo(HaveKey(d), name)
		seen[d] = name
	}
}
