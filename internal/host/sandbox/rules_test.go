package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// A directory that cannot be listed does not prevent a sandbox.
func TestBeside_descendsThroughDirectoriesThatCannotBeListed(t *testing.T) {
	g := NewWithT(t)
	g.Expect(leading("/home/", []string{"/home/a/.aws", "/home/a/.kube", "/home/b", "/root"})).To(Equal([]string{"a", "b"}))

	if os.Geteuid() == 0 {
		t.Skip("root can list every directory")
	}
	top := t.TempDir()
	dir := filepath.Join(top, "home")
	for _, name := range []string{"home/a/.aws", "home/a/src", "home/other"} {
		g.Expect(os.MkdirAll(filepath.Join(top, name), 0o700)).To(Succeed())
	}
	g.Expect(os.Chmod(dir, 0o300)).To(Succeed())
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	g.Expect(beside(top, []string{filepath.Join(dir, "a", ".aws")})).To(Equal([]rule{{path: filepath.Join(dir, "a", "src")}}))
}
