package filelock

import (
	"context"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestLock_waitsForTheOther(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "cache", "lock")
	never := func() { t.Error("it waits for nothing") }
	unlock, err := Lock(t.Context(), path, never)
	g.Expect(err).NotTo(HaveOccurred())

	unlockSecond, err := Lock(t.Context(), path, unlock)
	g.Expect(err).NotTo(HaveOccurred(), "the first is released when the second waits")
	unlockSecond()
	unlockThird, err := Lock(t.Context(), path, never)
	g.Expect(err).NotTo(HaveOccurred())
	unlockThird()
}

func TestLock_endsWithItsContext(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(t.Context(), path, func() {})
	g.Expect(err).NotTo(HaveOccurred())
	defer unlock()

	ctx, cancel := context.WithCancel(t.Context())
	_, err = Lock(ctx, path, cancel)
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(err).To(MatchError(ContainSubstring(path)))
}
