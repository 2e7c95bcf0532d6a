package controlplane

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestStopProcesses_selectsByHomeDirectory(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	start := func(home, script string) (Process, chan error) {
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
		g.Expect(cmd.Start()).To(Succeed())
		exited := make(chan error, 1)
		go func() { exited <- cmd.Wait() }()
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		started, err := processStarted(cmd.Process.Pid)
		g.Expect(err).NotTo(HaveOccurred())
		return Process{PID: cmd.Process.Pid, Started: started}, exited
	}
	at, atExited := start(dir, "exec sleep 600")
	below, belowExited := start(filepath.Join(dir, "a", "b"), "trap '' TERM; echo >&2; while :; do sleep 0.1; done")
	beside, _ := start(dir+"-beside", "exec sleep 600")

	g.Expect(StopProcesses(t.Context(), dir, 200*time.Millisecond)).To(Succeed())
	g.Expect(at.alive()).To(BeFalse())
	g.Expect(below.alive()).To(BeFalse(), "it ignored SIGTERM and was killed")
	g.Expect(beside.alive()).To(BeTrue())
	g.Eventually(atExited).Should(Receive())
	g.Eventually(belowExited).Should(Receive())
}

func TestPorts_areKeptByName(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cluster, err := New(filepath.Join(t.TempDir(), "cluster"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cluster.Port("webhooks")).To(BeZero())

	first, err := cluster.Ports(t.Context(), "webhooks", "health")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(first["webhooks"]).NotTo(Equal(first["health"]))
	g.Expect(cluster.Ports(t.Context(), "webhooks", "health", "more")).To(And(HaveKeyWithValue("webhooks", first["webhooks"]), HaveKeyWithValue("health", first["health"]), HaveKey("more")))
	g.Expect(cluster.Port("webhooks")).To(Equal(first["webhooks"]))

	listener, err := listen(first["webhooks"])
	g.Expect(err).NotTo(HaveOccurred(), "the program can listen on its port")
	defer listener.Close()
	third, err := cluster.Ports(t.Context(), "webhooks", "health")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(third["webhooks"]).NotTo(Equal(first["webhooks"]), "another process uses it")
	g.Expect(third["health"]).To(Equal(first["health"]))
}
