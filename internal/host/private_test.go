package host_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/host"
)

func TestPrivateDir_createsADirectoryForOneUser(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "a", "b")
	g.Expect(host.PrivateDir(path)).To(Succeed())
	g.Expect(host.PrivateDir(path)).To(Succeed(), "it may exist")
	info, err := os.Stat(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o700)))

	link := filepath.Join(t.TempDir(), "link")
	g.Expect(os.Symlink(path, link)).To(Succeed())
	g.Expect(host.PrivateDir(link)).To(Succeed(), "a link of this user")
}

func TestPrivateDir_refusesWhatOthersControl(t *testing.T) {
	g := NewWithT(t)
	shared := filepath.Join(t.TempDir(), "shared")
	g.Expect(os.Mkdir(shared, 0o700)).To(Succeed())
	g.Expect(os.Chmod(shared, 0o777)).To(Succeed())
	g.Expect(host.PrivateDir(shared)).To(MatchError(ContainSubstring("other users can write to " + shared)))

	file := filepath.Join(t.TempDir(), "file")
	g.Expect(os.WriteFile(file, nil, 0o600)).To(Succeed())
	g.Expect(host.PrivateDir(file)).To(MatchError(ContainSubstring("is not a directory")))

	if os.Geteuid() != 0 {
		g.Expect(host.PrivateDir("/usr")).To(MatchError(ContainSubstring("another user owns /usr")))
		return
	}
	planted := filepath.Join(t.TempDir(), "planted")
	g.Expect(os.Mkdir(planted, 0o700)).To(Succeed())
	g.Expect(os.Chown(planted, 65534, 65534)).To(Succeed())
	g.Expect(host.PrivateDir(planted)).To(MatchError(ContainSubstring("another user owns")))

	link := filepath.Join(t.TempDir(), "link")
	g.Expect(os.Symlink(t.TempDir(), link)).To(Succeed())
	g.Expect(os.Lchown(link, 65534, 65534)).To(Succeed())
	g.Expect(host.PrivateDir(link)).To(MatchError(ContainSubstring("another user owns")))
}
