package manager

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform/queue"
)

func TestLimits_leaveSlotsToOtherNamespaces(t *testing.T) {
	g := NewWithT(t)
	for runs, want := range map[int]int{1: 1, 2: 2, 4: 4, 5: 4, 10: 8, 100: 80} {
		g.Expect((&EngineOptions{MaxRuns: runs}).limits()).To(Equal(queue.Limits{Total: runs, PerNamespace: want}))
	}
	g.Expect((&EngineOptions{MaxRuns: 10, MaxRunsPerNamespace: 2}).limits().PerNamespace).To(Equal(2))
}

func TestDefaultWorkDir_isNotSharedWithOtherUsers(t *testing.T) {
	g := NewWithT(t)
	temporary, state := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	t.Setenv("XDG_STATE_HOME", state)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	g.Expect(defaultWorkDir()).To(Equal(filepath.Join(state, "capt")))

	old := filepath.Join(temporary, "capt")
	g.Expect(os.Mkdir(old, 0o700)).To(Succeed())
	g.Expect(defaultWorkDir()).To(Equal(old), "an earlier version may have left states there")
	g.Expect(os.Chmod(old, 0o777)).To(Succeed())
	g.Expect(defaultWorkDir()).To(Equal(filepath.Join(state, "capt")), "another user may have created it")
	g.Expect(os.Chmod(old, 0o700)).To(Succeed())
	g.Expect(os.Mkdir(filepath.Join(state, "capt"), 0o700)).To(Succeed())
	g.Expect(defaultWorkDir()).To(Equal(filepath.Join(state, "capt")))

	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	g.Expect(defaultWorkDir()).To(Equal(old), "a container has no other users")
}
