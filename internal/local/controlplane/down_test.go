package controlplane

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/testenv"
)

func TestDown_removesProcessesAndFiles(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	one, other := newCluster(t), newCluster(t)
	other.Dir += "-other"

	// Two at the same time: neither waits for the other or uses its ports.
	var second *Status
	failed := make(chan error)
	go func() {
		var err error
		second, err = other.Up(t.Context(), spec(func(s *Spec) { s.Name = "other" }))
		failed <- err
	}()
	first := mustUp(t, one, spec())
	g.Expect(<-failed).NotTo(HaveOccurred())
	g.Expect(first.Endpoint).NotTo(Equal(second.Endpoint))
	note(t, one, "only-here")
	g.Expect(findNote(t, other, "only-here")).NotTo(Succeed())
	g.Expect(testenv.ProcessesOf(one.Dir)).NotTo(BeEmpty(), "the search finds running processes")

	g.Expect(one.Down(t.Context())).To(Succeed())
	g.Expect(testenv.ProcessesOf(one.Dir + "/")).To(BeEmpty())
	g.Expect(first.Supervisor.alive()).To(BeFalse())
	g.Expect(os.Lstat(one.Dir)).Error().To(MatchError(os.ErrNotExist))
	g.Expect(one.Down(t.Context())).To(Succeed(), "a second Down")
	g.Expect(one.Status(t.Context())).To(Equal(&Status{Directory: one.Dir}))

	note(t, other, "still-here")
	g.Expect(other.Down(t.Context())).To(Succeed())
}

func TestDown_stopsProcessesOfARemovedDirectory(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cluster := newCluster(t)
	mustUp(t, cluster, spec())
	g.Expect(os.RemoveAll(cluster.Dir)).To(Succeed())
	g.Expect(cluster.Down(t.Context())).To(Succeed())
	// A supervisor that has to be killed takes its processes with it, a moment later.
	g.Eventually(testenv.ProcessesOf).WithArguments(cluster.Dir).Should(BeEmpty())

	t.Run("the supervisor exits without Down", func(t *testing.T) {
		g := NewWithT(t)
		mustUp(t, cluster, spec())
		g.Expect(os.RemoveAll(cluster.Dir)).To(Succeed())
		g.Eventually(testenv.ProcessesOf).WithArguments(cluster.Dir).Should(BeEmpty(), "the directory was removed")
		g.Expect(cluster.Dir).NotTo(BeADirectory(), "nothing created it again")
	})
}

func TestDown_killsASupervisorThatHangs(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cluster := newCluster(t)
	status := mustUp(t, cluster, spec())
	g.Expect(syscall.Kill(status.Supervisor.PID, syscall.SIGSTOP)).To(Succeed())
	g.Expect(cluster.Down(t.Context())).To(Succeed())
	g.Expect(testenv.ProcessesOf(cluster.Dir)).To(BeEmpty())
}

// unrelatedProcess starts a process that a stale file may name.
func unrelatedProcess(t *testing.T) Process {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	started, err := processStarted(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return Process{PID: cmd.Process.Pid, Started: started}
}

// The files of a stopped control plane may name PIDs that other processes have now.
func TestDown_doesNotStopAProcessWithAReusedPID(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cluster := newCluster(t)
	l := layout(cluster.Dir)
	unrelated := unrelatedProcess(t)
	stale := Process{PID: unrelated.PID, Started: "another-boot/1"}
	g.Expect(os.MkdirAll(cluster.Dir, 0o700)).To(Succeed())
	g.Expect(os.WriteFile(l.operationLock(), nil, 0o600)).To(Succeed())
	g.Expect(writeJSON(l.spec(), request{Spec: spec(), ID: "x"})).To(Succeed())
	g.Expect(writeJSON(l.supervisorLock(), stale)).To(Succeed())
	g.Expect(writeJSON(l.status(), observation{RequestID: "x", Supervisor: stale, Parts: []PartStatus{{Name: Etcd, Process: stale, Running: true}}})).To(Succeed())

	g.Expect(cluster.Down(t.Context())).To(Succeed())
	g.Expect(cluster.Dir).NotTo(BeADirectory())
	g.Expect(unrelated.alive()).To(BeTrue())

	// A process with the right identity is stopped.
	own := unrelatedProcess(t)
	g.Expect(own.stop(t.Context(), time.Second)).To(Succeed())
	g.Expect(own.alive()).To(BeFalse())
}

func TestDown_removesOnlyADirectoryOfAControlPlane(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cluster := newCluster(t)
	g.Expect(os.MkdirAll(cluster.Dir, 0o700)).To(Succeed())
	precious := filepath.Join(cluster.Dir, "precious")
	g.Expect(os.WriteFile(precious, nil, 0o600)).To(Succeed())
	g.Expect(cluster.Down(t.Context())).To(MatchError(ContainSubstring("contains files that do not belong to a control plane")))
	g.Expect(cluster.Up(t.Context(), spec())).Error().To(MatchError(ContainSubstring("contains files that do not belong to a control plane")))
	g.Expect(precious).To(BeARegularFile())

	g.Expect(os.Remove(precious)).To(Succeed())
	g.Expect(os.Chmod(cluster.Dir, 0o777)).To(Succeed())
	g.Expect(cluster.Up(t.Context(), spec())).Error().To(MatchError(ContainSubstring("must not be writable by other users")))
	g.Expect(os.Chmod(cluster.Dir, 0o700)).To(Succeed())
	g.Expect(cluster.Down(t.Context())).To(Succeed())
	g.Expect(cluster.Dir).NotTo(BeADirectory())
}
