package speculate_test

import (
	"os"
	"path/filepath"
	"strings"
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
		{name: "a comment", files: map[string]string{"a/b/main.tf": "# module \"x\" { source = \"../c\" }\n/* source = \"../c\" */", "a/c/main.tf": ""}, top: "a/b", root: "."},
		{name: "a source of something else", files: map[string]string{"a/b/main.tf": "resource \"aws_s3_object\" \"x\" {\n  source = \"../../c\"\n}\nlocals { x = { source = \"../../c\" } }", "c/main.tf": ""}, top: "a/b", root: "."},
		{name: "a string in several parts", files: map[string]string{"a/b/main.tf": `module "x" { source = "../${"c"}" }`, "a/c/main.tf": ""}, top: "a", root: "b"},
		{name: "the parent", files: map[string]string{"a/b/main.tf": `module "x" { source = ".." }`, "a/main.tf": ""}, top: "a", root: "b"},
		{name: "an invalid file", files: map[string]string{"a/b/main.tf": "module {{{", "a/b/x.tf": `module "x" { source = "../c" }`, "a/c/main.tf": ""}, top: "a", root: "b"},
		{name: "a file instead of a module", files: map[string]string{"a/b/main.tf": `module "x" { source = "../c" }`, "a/c": ""}, top: "a/b", root: "."},
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

func TestLocate_copiesNoMoreThanTheRepository(t *testing.T) {
	write := func(g Gomega, dir, name, content string) {
		path := filepath.Join(dir, name)
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	}
	t.Run("above the repository", func(t *testing.T) {
		g := NewWithT(t)
		dir := t.TempDir()
		// A worktree has a file instead of a directory.
		write(g, dir, "home/repo/.git", "gitdir: elsewhere")
		write(g, dir, "home/repo/a/main.tf", "\nmodule \"x\" { source = \"./b\" }")
		write(g, dir, "home/repo/a/b/main.tf", "module \"x\" {\n  source = \"../../../other\"\n}")
		write(g, dir, "home/other/main.tf", "")
		_, _, err := speculate.Locate(filepath.Join(dir, "home/repo/a"))
		g.Expect(err).To(MatchError(And(
			HavePrefix(filepath.Join(dir, "home/repo/a/b/main.tf")+":2 uses module ../../../other, which is outside of the repository "+filepath.Join(dir, "home/repo")),
			ContainSubstring("all of "+filepath.Join(dir, "home")+" would be copied"))))
	})
	for name, home := range map[string]string{"the home directory": "home", "above the home directory": "home/u/v"} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			dir := t.TempDir()
			t.Setenv("HOME", filepath.Join(dir, home))
			write(g, dir, "home/a/main.tf", `module "x" { source = "../b" }`)
			write(g, dir, "home/b/main.tf", "")
			write(g, dir, "home/u/v/main.tf", "")
			_, _, err := speculate.Locate(filepath.Join(dir, "home/a"))
			g.Expect(err).To(MatchError(ContainSubstring("all of " + filepath.Join(dir, "home") + " would be copied: put both modules into one directory")))
			_, _, err = speculate.Locate(filepath.Join(dir, home))
			g.Expect(err).To(MatchError(ContainSubstring("put it into a directory of its own")))
		})
	}
	t.Run("a repository in the home directory of a CI job", func(t *testing.T) {
		g := NewWithT(t)
		dir := t.TempDir()
		t.Setenv("HOME", dir)
		write(g, dir, ".git/HEAD", "")
		write(g, dir, "envs/prod/main.tf", `module "x" { source = "../../modules/x" }`)
		write(g, dir, "modules/x/main.tf", "")
		top, root, err := speculate.Locate(filepath.Join(dir, "envs/prod"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect([]string{top, root}).To(Equal([]string{dir, "envs/prod"}))
	})
	t.Run("a file that is nested too deeply", func(t *testing.T) {
		g := NewWithT(t)
		dir := t.TempDir()
		write(g, dir, "main.tf", "locals {\n  a = "+strings.Repeat("[", 100_000)+"\n}\n")
		_, _, err := speculate.Locate(dir)
		g.Expect(err).To(MatchError(ContainSubstring("is nested too deeply")))
	})
	t.Run("the root directory", func(t *testing.T) {
		_, _, err := speculate.Locate("/")
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("put it into a directory of its own")))
	})
}
