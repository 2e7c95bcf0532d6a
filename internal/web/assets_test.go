package web

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"testing"

	. "github.com/onsi/gomega"
)

func TestAssets_areSmall(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	size, err := compressedSize()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(size).To(BeNumerically("<", 200_000), "bytes of the page, compressed")
	if !Built() {
		t.Log("the page is not built: run make ui")
	}
}

func TestAssets_placeholderSaysHowToBuildThePage(t *testing.T) {
	t.Parallel()
	content, err := assets.ReadFile("assets/placeholder.html")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(bytes.Contains(content, []byte("make ui"))).To(BeTrue())
}

// compressedSize returns the size of the built page with all its files, compressed as
// for a transfer.
func compressedSize() (int, error) {
	total := 0
	err := fs.WalkDir(assets, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := assets.ReadFile(name)
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		if _, err := w.Write(content); err != nil {
			return fmt.Errorf("compressing %s: %w", name, err)
		}
		if err := w.Close(); err != nil {
			return fmt.Errorf("compressing %s: %w", name, err)
		}
		total += out.Len()
		return nil
	})
	return total, err
}
