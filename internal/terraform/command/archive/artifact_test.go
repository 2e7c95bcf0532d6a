package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// packed returns a compressed tar with the entries.
func packed(g Gomega, headers ...tar.Header) []byte {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	for i := range headers {
		content := []byte(headers[i].PAXRecords["content"])
		headers[i].PAXRecords = nil
		headers[i].Size = int64(len(content))
		g.Expect(w.WriteHeader(&headers[i])).To(Succeed())
		_, err := w.Write(content)
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(w.Close()).To(Succeed())
	g.Expect(zip.Close()).To(Succeed())
	return out.Bytes()
}

func fileEntry(name, content string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, PAXRecords: map[string]string{"content": content}}
}

func TestUnpackArtifact_refusesWhatLeavesTheDirectory(t *testing.T) {
	for name, tc := range map[string]struct {
		entries []tar.Header
		want    string
	}{
		"a parent directory": {[]tar.Header{fileEntry("../x", "")}, "outside the artifact"},
		"an absolute path":   {[]tar.Header{fileEntry("/etc/x", "")}, "outside the artifact"},
		"a hidden parent":    {[]tar.Header{fileEntry("a/../../x", "")}, "outside the artifact"},
		"a symbolic link":    {[]tar.Header{{Typeflag: tar.TypeSymlink, Name: "a", Linkname: "/etc"}, fileEntry("a/x", "")}, "links and devices"},
		"a hard link":        {[]tar.Header{{Typeflag: tar.TypeLink, Name: "a", Linkname: "/etc/passwd"}}, "links and devices"},
		"a device":           {[]tar.Header{{Typeflag: tar.TypeChar, Name: "a"}}, "links and devices"},
	} {
		g, parent := NewWithT(t), t.TempDir()
		dir := filepath.Join(parent, "d")
		g.Expect(os.Mkdir(dir, 0o700)).To(Succeed())
		g.Expect(UnpackArtifact(packed(g, tc.entries...), dir)).To(MatchError(ContainSubstring(tc.want)), name)
		g.Expect(filepath.Glob(filepath.Join(parent, "x"))).To(BeEmpty(), name)
	}
	NewWithT(t).Expect(UnpackArtifact([]byte("text"), t.TempDir())).To(MatchError(ContainSubstring("not a compressed tar")))
}

func TestUnpackArtifact_limitsSizeAndFiles(t *testing.T) {
	g := NewWithT(t)
	large := packed(g, fileEntry("a", strings.Repeat("x", 1<<20)))
	g.Expect(UnpackArtifact(large, t.TempDir())).To(Succeed())
	g.Expect(UnpackArtifact(sparseEntry(g, "a", maxContent+1), t.TempDir())).To(MatchError(ContainSubstring("more than 256 MiB")))

	var many []tar.Header
	for range maxEntries + 1 {
		many = append(many, fileEntry("a", ""))
	}
	g.Expect(UnpackArtifact(packed(g, many...), t.TempDir())).To(MatchError(ContainSubstring("more than 20000 files")))
}

// sparseEntry returns a compressed tar with one file that has a size and, apart from one
// byte, no content. The writer of the standard library does not write such files.
func sparseEntry(g Gomega, name string, size int64) []byte {
	var records strings.Builder
	for _, record := range []string{fmt.Sprintf("GNU.sparse.size=%d", size), "GNU.sparse.numblocks=1", "GNU.sparse.map=0,1"} {
		// The length of a record counts its own two digits.
		_, _ = fmt.Fprintf(&records, "%d %s\n", len(record)+4, record)
	}
	var out bytes.Buffer
	for _, entry := range []struct {
		kind          byte
		name, content string
	}{{tar.TypeXHeader, "extended", records.String()}, {tar.TypeReg, name, "x"}} {
		var block [512]byte
		copy(block[:], entry.name)
		copy(block[100:], "0000600\x000000000\x000000000\x00")
		copy(block[124:], fmt.Sprintf("%011o\x0000000000000\x00        ", len(entry.content)))
		block[156] = entry.kind
		copy(block[257:], "ustar\x0000")
		sum := 0
		for _, b := range block {
			sum += int(b)
		}
		copy(block[148:], fmt.Sprintf("%06o\x00 ", sum))
		out.Write(block[:])
		out.WriteString(entry.content + strings.Repeat("\x00", 512-len(entry.content)))
	}
	out.Write(make([]byte, 1024))
	var zipped bytes.Buffer
	zip := gzip.NewWriter(&zipped)
	_, err := zip.Write(out.Bytes())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(zip.Close()).To(Succeed())
	return zipped.Bytes()
}

// A sparse file has a size without as many bytes in the archive. Directories need no bytes
// of their own either.
func TestArchives_limitWhatNeedsNoBytes(t *testing.T) {
	g := NewWithT(t)
	const tooLarge = "more than 256 MiB"
	g.Expect(UnpackArtifact(sparseEntry(g, "a", 4096), t.TempDir())).To(Succeed())
	_, err := Digest(sparseEntry(g, PackageDir+"/a", maxContent+1))
	g.Expect(err).To(MatchError(ContainSubstring(tooLarge)))
	_, err = Unpack(sparseEntry(g, PackageDir+"/a", maxContent+1), t.TempDir(), "modules")
	g.Expect(err).To(MatchError(ContainSubstring(tooLarge)))

	deep := fileEntry(strings.Repeat("a/", maxEntries)+"a", "")
	dir := t.TempDir()
	g.Expect(UnpackArtifact(packed(g, deep), dir)).To(MatchError(ContainSubstring("more than 20000 files")))
	g.Expect(os.ReadDir(dir)).To(BeEmpty())
}

func TestUnpackArtifact_ignoresWhatArchiversAdd(t *testing.T) {
	g, dir := NewWithT(t), t.TempDir()
	content := packed(g, tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header"},
		tar.Header{Typeflag: tar.TypeDir, Name: "stack/", Mode: 0o755}, fileEntry("./stack/main.tf", "# stack\n"))
	g.Expect(UnpackArtifact(content, dir)).To(Succeed())
	g.Expect(os.ReadFile(filepath.Join(dir, "stack", "main.tf"))).To(BeEquivalentTo("# stack\n"))
	g.Expect(os.ReadDir(dir)).To(HaveLen(1))
}
