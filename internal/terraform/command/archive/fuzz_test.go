package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"
)

// archived returns a tar with files of zeros.
func archived(headers ...tar.Header) []byte {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, header := range headers {
		header.Mode = 0o644
		if w.WriteHeader(&header) != nil {
			continue
		}
		_, _ = w.Write(make([]byte, header.Size))
	}
	_ = w.Close()
	return packed.Bytes()
}

// inside fails the test if unpacking writes outside the directory.
func inside(t *testing.T, unpack func(dir string)) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "module")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	unpack(dir)
	if entries, err := os.ReadDir(parent); err != nil || len(entries) != 1 {
		t.Fatalf("the archive left the directory: %v %v", entries, err)
	}
}

// Whatever an archive contains, nothing is written outside the directory.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte{})
	f.Add(archived(tar.Header{Name: PackageDir + "/main.tf", Typeflag: tar.TypeReg, Size: 3}))
	f.Add(archived(tar.Header{Name: PackageDir + "/../../x", Typeflag: tar.TypeReg, Size: 3}))
	f.Add(archived(tar.Header{Name: PackageDir + "/l", Typeflag: tar.TypeSymlink, Linkname: "/tmp"}, tar.Header{Name: PackageDir + "/l/x", Typeflag: tar.TypeReg, Size: 1}))
	f.Add(archived(tar.Header{Name: rootEntry, Typeflag: tar.TypeReg, Size: 2}))
	f.Fuzz(func(t *testing.T, data []byte) {
		inside(t, func(dir string) { _, _ = Unpack(data, dir, ".terraform/modules") })
	})
}

// Users write what a source of Flux provides. The content is compressed, so that what is
// fuzzed is the tar.
func FuzzUnpackArtifact(f *testing.F) {
	f.Add([]byte{})
	f.Add(archived(tar.Header{Name: "main.tf", Typeflag: tar.TypeReg, Size: 3}, tar.Header{Name: "a/b/c.tf", Typeflag: tar.TypeReg, Size: 3}))
	f.Add(archived(tar.Header{Name: "../../x", Typeflag: tar.TypeReg, Size: 3}))
	f.Add(archived(tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: ".."}, tar.Header{Name: "l/x", Typeflag: tar.TypeReg, Size: 1}))
	f.Add(archived(tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}, tar.Header{Name: "/abs", Typeflag: tar.TypeReg, Size: 1}))
	f.Fuzz(func(t *testing.T, data []byte) {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(data)
		_ = w.Close()
		inside(t, func(dir string) {
			_ = UnpackArtifact(packed.Bytes(), dir)
			_ = UnpackArtifact(data, dir)
			_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, _ error) error {
				if entry != nil && !entry.IsDir() && !entry.Type().IsRegular() {
					t.Fatalf("%s is neither a file nor a directory", path)
				}
				return nil
			})
		})
	})
}
