package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/archive"
)

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func TestPlaceArtifact(t *testing.T) {
	g, dir := NewWithT(t), t.TempDir()
	for name, content := range map[string]string{"stack/main.tf": "# stack\n", "shared/main.tf": "", "stack/.terraform/x": "", "empty/README.md": ""} {
		g.Expect(writeFile(filepath.Join(dir, name), []byte(content))).To(Succeed())
	}
	file := filepath.Join(t.TempDir(), "artifact")
	writer, err := archive.NewWriter(file)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(writer.AddTree(dir, "")).To(Succeed())
	g.Expect(writer.Close()).Error().NotTo(HaveOccurred())
	content, err := os.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
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
