package runner

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
)

func TestRemoveWorkspace_keepsAnUnsavedState(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	state := filepath.Join(dir, "workspaces", "n", "a", "module", "errored.tfstate")
	g.Expect(os.MkdirAll(filepath.Dir(state), 0o700)).To(Succeed())
	g.Expect(os.WriteFile(state, []byte("{}"), 0o600)).To(Succeed())
	g.Expect(RemoveWorkspace(t.Context(), dir, terraform.WorkspaceRef{Namespace: "n", Name: "a", UID: "u"})).To(Succeed())
	g.Expect(state).To(BeAnExistingFile())
	g.Expect(os.Remove(state)).To(Succeed())
	g.Expect(RemoveWorkspace(t.Context(), dir, terraform.WorkspaceRef{Namespace: "n", Name: "a", UID: "u"})).To(Succeed())
	g.Expect(filepath.Join(dir, "workspaces", "n", "a")).NotTo(BeADirectory())
}

func TestRemoveWorkspace_removesOnlyThatWorkspace(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		g.Expect(os.MkdirAll(filepath.Join(dir, "workspaces", "n", name), 0o700)).To(Succeed())
	}
	g.Expect(RemoveWorkspace(t.Context(), dir, terraform.WorkspaceRef{Namespace: "n", Name: "a", UID: "u"})).To(Succeed())
	g.Expect(RemoveWorkspace(t.Context(), dir, terraform.WorkspaceRef{Namespace: "n", Name: "a", UID: "u"})).To(Succeed(), "the removal is idempotent")
	g.Expect(filepath.Join(dir, "workspaces", "n", "a")).NotTo(BeADirectory())
	g.Expect(filepath.Join(dir, "workspaces", "n", "b")).To(BeADirectory())
}

// A manager that was suspended while it deleted a workspace continues when the next
// workspace of the name is already there.
func TestRemoveWorkspace_keepsTheDirectoryOfTheNextWorkspace(t *testing.T) {
	g := NewWithT(t)
	workDir := t.TempDir()
	old := terraform.WorkspaceRef{Namespace: "n", Name: "a", UID: "old"}
	next := terraform.WorkspaceRef{Namespace: "n", Name: "a", UID: "next"}
	dir := dirOf(workDir, next)
	g.Expect(os.MkdirAll(dir.Dir, 0o700)).To(Succeed())
	g.Expect(dir.SetOwner("next")).To(Succeed())
	used, err := useDir(t.Context(), workDir, next)
	g.Expect(err).NotTo(HaveOccurred())
	others, release := othersRunning(workDir, next)
	g.Expect(others()).To(BeFalse())
	release()
	used.Release()
	g.Expect(RemoveWorkspace(t.Context(), workDir, old)).To(Succeed())
	g.Expect(dir.Dir).To(BeADirectory())

	g.Expect(RemoveWorkspace(t.Context(), workDir, next)).To(Succeed())
	g.Expect(dir.Dir).NotTo(BeADirectory())
	left, err := filepath.Glob(filepath.Join(workDir, "*", "n", "*"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(left).To(BeEmpty(), "the locks are removed, too")
}

func TestOthersRunning_waitsForARunnerWhoseLockWasBroken(t *testing.T) {
	g := NewWithT(t)
	workDir, workspace := t.TempDir(), terraform.WorkspaceRef{Namespace: "n", Name: "a", UID: "u"}
	used, err := useDir(t.Context(), workDir, workspace)
	g.Expect(err).NotTo(HaveOccurred())
	defer used.Release()
	first, releaseFirst := othersRunning(workDir, workspace)
	second, releaseSecond := othersRunning(workDir, workspace)
	defer releaseSecond()
	other, releaseOther := othersRunning(workDir, terraform.WorkspaceRef{Namespace: "n", Name: "a-b"})
	defer releaseOther()
	g.Expect(first()).To(BeFalse())
	g.Expect(first()).To(BeFalse(), "it holds the lock")
	g.Expect(second()).To(BeTrue())
	g.Expect(other()).To(BeFalse(), "another workspace")
	tool := exec.Command("sleep", "1h")
	g.Expect(tool.Start()).To(Succeed())
	defer func() { _ = tool.Process.Kill(); _ = tool.Wait() }()
	releaseFirst()
	g.Eventually(second).Should(BeFalse(), "the tool of a runner does not keep its lock")
}

func TestOthersRunning_failsWithoutALock(t *testing.T) {
	g := NewWithT(t)
	workDir, workspace := t.TempDir(), terraform.WorkspaceRef{Namespace: "n", Name: "a", UID: "u"}
	g.Expect(os.MkdirAll(runnerLockFile(workDir, workspace), 0o700)).To(Succeed())
	others, release := othersRunning(workDir, workspace)
	defer release()
	_, err := others()
	g.Expect(err).To(HaveOccurred(), "another runner may work there")
}

// The first run of the next workspace has not recorded its owner yet.
func TestRemoveWorkspace_waitsForARun(t *testing.T) {
	workDir, workspace := t.TempDir(), terraform.WorkspaceRef{Namespace: "n", Name: "a", UID: "u"}
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(os.MkdirAll(dirOf(workDir, workspace).Dir, 0o700)).To(Succeed())
		first, err := useDir(t.Context(), workDir, workspace)
		g.Expect(err).NotTo(HaveOccurred())
		second, err := useDir(t.Context(), workDir, workspace)
		g.Expect(err).NotTo(HaveOccurred(), "runs do not wait for each other")
		first.Release()
		removed := make(chan error, 1)
		go func() { removed <- RemoveWorkspace(t.Context(), workDir, workspace) }()
		synctest.Wait()
		g.Expect(removed).NotTo(Receive())
		second.Release()
		g.Expect(<-removed).To(Succeed())
		g.Expect(dirOf(workDir, workspace).Dir).NotTo(BeADirectory())
	})
}
