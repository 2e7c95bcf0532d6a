package host_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/host"
)

func TestTryLockFile_isExclusive(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "lock")
	g.Expect(host.IsLocked(path)).To(BeFalse(), "the file does not exist")
	g.Expect(path).NotTo(BeAnExistingFile())

	lock, err := host.TryLockFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(host.IsLocked(path)).To(BeTrue())
	g.Expect(host.TryLockFile(path)).Error().To(MatchError(host.ErrLocked))

	lock.Release()
	g.Expect(host.IsLocked(path)).To(BeFalse())
	again, err := host.TryLockFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	again.Release()
}

func TestTryLockFile_needsTheDirectory(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "missing", "lock")
	g.Expect(host.TryLockFile(path)).Error().To(MatchError(os.ErrNotExist))
	g.Expect(host.IsLocked(path)).To(BeFalse())
}

func TestLockFile_waitsUntilTheLockIsReleased(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		first, err := host.LockFile(t.Context(), path)
		g.Expect(err).NotTo(HaveOccurred())
		acquired := make(chan *host.FileLock, 1)
		go func() {
			second, _ := host.LockFile(t.Context(), path)
			acquired <- second
		}()
		synctest.Wait()
		g.Expect(acquired).NotTo(Receive())

		first.Release()
		(<-acquired).Release()
	})
}

func TestLockFile_endsWithItsContext(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "lock")
	held, err := host.TryLockFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	defer held.Release()

	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	g.Expect(host.LockFile(ctx, path)).Error().To(And(MatchError(stopped), MatchError(ContainSubstring(path))))
}

func TestFileLock_Current(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "lock")
	lock, err := host.TryLockFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	defer lock.Release()
	g.Expect(lock.Current()).To(BeTrue())

	g.Expect(os.Remove(path)).To(Succeed())
	g.Expect(lock.Current()).To(BeFalse(), "the file was removed")
	g.Expect(os.WriteFile(path, nil, 0o600)).To(Succeed())
	g.Expect(lock.Current()).To(BeFalse(), "the file was replaced")
}
