package command

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
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

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
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
		g.Expect(unpackArtifact(packed(g, tc.entries...), dir)).To(MatchError(ContainSubstring(tc.want)), name)
		g.Expect(filepath.Glob(filepath.Join(parent, "x"))).To(BeEmpty(), name)
	}
	NewWithT(t).Expect(unpackArtifact([]byte("text"), t.TempDir())).To(MatchError(ContainSubstring("not a compressed tar")))
}

func TestUnpackArtifact_limitsSizeAndFiles(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	g.Expect(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "bomb", Mode: 0o600, Size: maxContent + 1})).To(Succeed())
	zeros := make([]byte, 1<<20)
	for range maxContent >> 20 {
		_, err := w.Write(zeros)
		g.Expect(err).NotTo(HaveOccurred())
	}
	_, err := w.Write(zeros[:1])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.Close()).To(Succeed())
	g.Expect(zip.Close()).To(Succeed())
	g.Expect(unpackArtifact(out.Bytes(), t.TempDir())).To(HaveOccurred())

	var many []tar.Header
	for range maxEntries + 1 {
		many = append(many, fileEntry("a", ""))
	}
	g.Expect(unpackArtifact(packed(g, many...), t.TempDir())).To(MatchError(ContainSubstring("more than 20000 files")))
}

func TestPlaceArtifact(t *testing.T) {
	content := packed(NewWithT(t), tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header"},
		tar.Header{Typeflag: tar.TypeDir, Name: "stack/", Mode: 0o755}, fileEntry("./stack/main.tf", "# stack\n"), fileEntry("shared/main.tf", ""),
		fileEntry("stack/.terraform/x", ""), fileEntry("empty/README.md", ""))
	artifact := terraform.Artifact{Source: "GitRepository/infra", Digest: digestOf(content), Revision: "main@sha1:1", Archive: "module-a"}
	for name, tc := range map[string]struct {
		change     func(*terraform.Artifact)
		entrypoint string
		stored     []byte
		want       string
	}{
		"the root module":    {entrypoint: "stack", stored: content},
		"another directory":  {entrypoint: "empty", stored: content, want: "no .tf or .tofu file"},
		"not stored":         {entrypoint: "stack", want: "was deleted from the cluster"},
		"changed":            {entrypoint: "stack", stored: append([]byte{}, content[:len(content)-1]...), want: "is not what the source provided"},
		"an unknown digest":  {entrypoint: "stack", stored: content, change: func(a *terraform.Artifact) { a.Digest = "blake3:00" }, want: "use sha256, sha384 or sha512"},
		"without an archive": {entrypoint: "stack", stored: content, change: func(a *terraform.Artifact) { a.Archive = "" }, want: "was deleted from the cluster"},
	} {
		g := NewWithT(t)
		w := &Workdir{Dir: t.TempDir(), Archive: func(_ context.Context, name string) ([]byte, error) {
			g.Expect(name).To(Equal("module-a"))
			return tc.stored, nil
		}}
		g.Expect(os.MkdirAll(w.moduleDir(), 0o700)).To(Succeed())
		used := artifact
		if tc.change != nil {
			tc.change(&used)
		}
		root, revision, err := w.placeArtifact(t.Context(), terraform.Module{Source: terraform.SourceFlux, Entrypoint: tc.entrypoint, Artifact: &used}, w.moduleDir())
		if tc.want != "" {
			g.Expect(AsFailure(err)).NotTo(BeNil(), name)
			g.Expect(AsFailure(err).Diagnostics.Short()).To(ContainSubstring(tc.want), name)
			continue
		}
		g.Expect(err).NotTo(HaveOccurred(), name)
		g.Expect([]string{root, revision}).To(Equal([]string{"stack", "main@sha1:1"}), name)
		g.Expect(os.ReadFile(filepath.Join(w.moduleDir(), "stack", "main.tf"))).To(BeEquivalentTo("# stack\n"), name)
		g.Expect(filepath.Join(w.moduleDir(), "shared", "main.tf")).To(BeARegularFile(), name)
		g.Expect(filepath.Join(w.moduleDir(), "stack", ".terraform")).NotTo(BeADirectory(), name)
	}
}
