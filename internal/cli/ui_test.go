package cli

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// Other users of the machine see the arguments of programs.
func TestOpenBrowser_passesTheLinkInAFile(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	browser := "#!/bin/sh\ncat \"$1\" > '" + dir + "/shown'\necho \"$@\" > '" + dir + "/arguments'\n"
	for _, name := range []string{"xdg-open", "open"} {
		g.Expect(os.WriteFile(filepath.Join(dir, name), []byte(browser), 0o700)).To(Succeed())
	}
	g.Expect(openBrowser(t.Context(), "http://127.0.0.1:8082/#token=SECRET")).To(Succeed())
	var arguments []byte
	g.Eventually(func() (string, error) {
		var err error
		arguments, err = os.ReadFile(filepath.Join(dir, "arguments"))
		return string(arguments), err
	}).Should(HaveSuffix("open.html\n"))
	shown, err := os.ReadFile(filepath.Join(dir, "shown"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(shown)).To(ContainSubstring("url=http://127.0.0.1:8082/#token=SECRET"))
	g.Expect(string(arguments)).NotTo(ContainSubstring("SECRET"))
	page, err := os.Stat(string(arguments[:len(arguments)-1]))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(page.Mode().Perm()).To(Equal(os.FileMode(0o600)))
}
