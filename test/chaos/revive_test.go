package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// A program that was killed is started again with its arguments and its environment, however often.
func TestKill_ofAProgramOfTheControlPlane(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	// Each start writes its PID to a file of its own.
	pids := func() []string {
		found, _ := filepath.Glob(filepath.Join(dir, "kept-*"))
		return found
	}
	cmd := exec.Command("/bin/sh", "-c", `echo > "$0/$VALUE-$$"; while :; do sleep 1; done`, dir)
	cmd.Env = append(os.Environ(), "VALUE=kept")
	g.Expect(cmd.Start()).To(Succeed())
	g.Eventually(pids, testTimeout).Should(HaveLen(1))

	p := &jobPlatform{base: dir}
	defer p.revived.stop()
	victim, err := newTarget(cmd.Process.Pid)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(p.kill(victim)).To(Succeed())
	g.Expect(cmd.Wait()).NotTo(Succeed())
	g.Eventually(pids, testTimeout).Should(HaveLen(2))
	g.Expect(p.kill(victim)).To(MatchError(errNoTarget), "it has another PID")
}
