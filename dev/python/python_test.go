package python

import (
	"archive/zip"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// wheel writes a package and returns the SHA-256 of its file.
func wheel(t *testing.T, dir, name, code string) string {
	t.Helper()
	g := NewWithT(t)
	file, err := os.Create(filepath.Join(dir, name+"-1.0-py3-none-any.whl"))
	g.Expect(err).NotTo(HaveOccurred())
	archive, info := zip.NewWriter(file), name+"-1.0.dist-info/"
	for path, content := range map[string]string{
		name + ".py":      code,
		info + "METADATA": "Metadata-Version: 2.1\nName: " + name + "\nVersion: 1.0\n",
		info + "WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "RECORD":   "",
	} {
		w, err := archive.Create(path)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = w.Write([]byte(content))
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(archive.Close()).To(Succeed())
	g.Expect(file.Close()).To(Succeed())
	text, err := os.ReadFile(file.Name())
	g.Expect(err).NotTo(HaveOccurred())
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

func TestInstall_acceptsOnlyFilesWithTheirHashes(t *testing.T) {
	if err := exec.Command("python3", "-c", "import venv, ensurepip").Run(); err != nil {
		t.Skip("needs Python 3 with venv")
	}
	g := NewWithT(t)
	cache, index := t.TempDir(), t.TempDir()
	t.Setenv("PIP_NO_INDEX", "1")
	t.Setenv("PIP_FIND_LINKS", index)
	requirements := "greeting==1.0 --hash=sha256:" + wheel(t, index, "greeting", "text = 'hello'") + "\n"
	dir, err := Install(t.Context(), cache, "greeting", requirements)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(exec.Command(filepath.Join(dir, "bin", "python"), "-c", "import greeting; print(greeting.text)").Output()).To(BeEquivalentTo("hello\n"))

	// Another file under the same version is neither needed nor accepted.
	wheel(t, index, "greeting", "text = 'attack'")
	g.Expect(Install(t.Context(), cache, "greeting", requirements)).To(Equal(dir))
	_, err = Install(t.Context(), t.TempDir(), "greeting", requirements)
	g.Expect(err).To(MatchError(ContainSubstring("DO NOT MATCH THE HASHES")))
}
