package speculate_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform/speculate"
)

func TestLocate_includesModulesWithRelativePaths(t *testing.T) {
	for _, tt := range []struct {
		name      string
		files     map[string]string
		top, root string
	}{
		{name: "a module on its own", files: map[string]string{"a/b/main.tf": `module "x" { source = "hashicorp/x/aws" }`}, top: "a/b", root: "."},
		{name: "a module below it", files: map[string]string{"a/b/main.tf": `module "x" { source = "./x" }`, "a/b/x/main.tf": ""}, top: "a/b", root: "."},
		{
			name:  "a module that a sibling uses",
			files: map[string]string{"a/b/main.tf": `module "x" { source = "../c" }`, "a/c/main.tofu": "module \"y\" {\n  source  =  \"../../d\"\n}", "d/main.tf": ""},
			top:   ".", root: "a/b",
		},
		{name: "the JSON syntax", files: map[string]string{"a/b/main.tf.json": `{"module": {"x": {"source": "../c"}}}`, "a/c/main.tf": ""}, top: "a", root: "b"},
		{name: "a module that does not exist", files: map[string]string{"a/b/main.tf": `module "x" { source = "../../../none" }`}, top: "a/b", root: "."},
		{name: "modules that use each other", files: map[string]string{"a/b/main.tf": `module "x" { source = "../c" }`, "a/c/main.tf": `module "x" { source = "../b" }`}, top: "a", root: "b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			dir := t.TempDir()
			for name, content := range tt.files {
				path := filepath.Join(dir, name)
				g.Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
				g.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
			}
			top, root, err := speculate.Locate(filepath.Join(dir, "a/b"))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(top).To(Equal(filepath.Join(dir, tt.top)))
			g.Expect(root).To(Equal(tt.root))
		})
	}
	_, _, err := speculate.Locate(filepath.Join(t.TempDir(), "missing"))
	NewWithT(t).Expect(err).To(MatchError(os.ErrNotExist))
}

func TestTempDir_isPrivateAndRemoved(t *testing.T) {
	g := NewWithT(t)
	dir, remove, err := speculate.TempDir()
	g.Expect(err).NotTo(HaveOccurred())
	info, err := os.Stat(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(BeEquivalentTo(0o700))
	g.Expect(os.Mkdir(filepath.Join(dir, "sealed"), 0o700)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "sealed", "state"), nil, 0o400)).To(Succeed())
	g.Expect(os.Chmod(filepath.Join(dir, "sealed"), 0o500)).To(Succeed())
	g.Expect(remove()).To(Succeed())
	g.Expect(dir).NotTo(BeADirectory())
}
