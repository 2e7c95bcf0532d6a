package command

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform/statefile"
)

// victim returns a directory with files that only the engine may use, and the working
// directory of a module.
func victim(t *testing.T, g Gomega) (secrets, dir string) {
	t.Helper()
	secrets, dir = t.TempDir(), t.TempDir()
	for _, name := range []string{stateFileName, erroredState, dependencyLock, "credentials"} {
		g.Expect(os.WriteFile(filepath.Join(secrets, name), statefile.New("victim", "o"), 0o600)).To(Succeed())
	}
	g.Expect(os.Mkdir(filepath.Join(dir, "module"), 0o700)).To(Succeed())
	return secrets, dir
}

func expectUntouched(g Gomega, secrets string) {
	for _, name := range []string{stateFileName, erroredState, dependencyLock, "credentials"} {
		g.Expect(filepath.Join(secrets, name)).To(BeAnExistingFile())
	}
}

// A sandbox keeps a module away from the files of others. The engine must not use them for
// the module.
func TestLinks_doNotLeadTheEngineToOtherFiles(t *testing.T) {
	t.Run("files", func(t *testing.T) {
		g := NewWithT(t)
		secrets, dir := victim(t, g)
		for _, name := range []string{stateFileName, erroredState, dependencyLock} {
			g.Expect(os.Symlink(filepath.Join(secrets, name), filepath.Join(dir, "module", name))).To(Succeed())
		}
		session, err := Reopen(&Workdir{Dir: dir})
		g.Expect(err).NotTo(HaveOccurred())
		content, err := session.LockFile()
		g.Expect(err).To(HaveOccurred())
		g.Expect(content).To(BeEmpty())
		content, err = session.ReadState()
		g.Expect(err).To(HaveOccurred())
		g.Expect(content).To(BeEmpty())
		_, err = UnsavedStates(dir)
		g.Expect(err).To(HaveOccurred())

		before, err := os.ReadFile(filepath.Join(secrets, "credentials"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(os.Symlink(filepath.Join(secrets, "credentials"), session.StateFile()+baseSuffix)).To(Succeed())
		g.Expect(session.AddBase([]byte("state"))).NotTo(Succeed())
		g.Expect(os.ReadFile(filepath.Join(secrets, "credentials"))).To(Equal(before))
	})
	for name, link := range map[string]string{"the module": "module", "a directory of the module": "module/sub"} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			secrets, dir := victim(t, g)
			g.Expect(marker{Key: "k", Root: link, Files: []string{"credentials"}}.write(dir)).To(Succeed())
			g.Expect(os.RemoveAll(filepath.Join(dir, link))).To(Succeed())
			g.Expect(os.Symlink(secrets, filepath.Join(dir, link))).To(Succeed())
			g.Expect(UnsavedStates(dir)).To(BeEmpty())
			g.Expect((&Workdir{Dir: dir}).Scrub()).To(Succeed())
			expectUntouched(g, secrets)
		})
	}
	t.Run("while the module runs", func(t *testing.T) {
		g := NewWithT(t)
		secrets, dir := victim(t, g)
		session, err := Reopen(&Workdir{Dir: dir})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(os.Remove(filepath.Join(dir, "module"))).To(Succeed())
		g.Expect(os.Symlink(secrets, filepath.Join(dir, "module"))).To(Succeed())
		content, err := session.ReadState()
		g.Expect(err).To(HaveOccurred())
		g.Expect(content).To(BeEmpty())
	})
	t.Run("names in the marker", func(t *testing.T) {
		g := NewWithT(t)
		secrets, dir := victim(t, g)
		outside, err := filepath.Rel(filepath.Join(dir, "module"), filepath.Join(secrets, "credentials"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(marker{Key: "k", Root: "module", Files: []string{outside}}.write(dir)).To(Succeed())
		g.Expect((&Workdir{Dir: dir}).Scrub()).To(Succeed())
		expectUntouched(g, secrets)
	})
}
