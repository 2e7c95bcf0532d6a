//go:build linux

package record_test

import (
	"os"
	"os/exec"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/terraform/record"
	_ "github.com/appthrust/capt/internal/testenv/waits"
)

func TestIdentity_Alive(t *testing.T) {
	g := NewWithT(t)
	started, err := host.ProcessStartTime(os.Getpid())
	g.Expect(err).NotTo(HaveOccurred())
	self := record.Identity{PID: os.Getpid(), Started: started}
	g.Expect(self.Alive()).To(BeTrue())

	reused := record.Identity{PID: os.Getpid(), Started: started - 1}
	g.Expect(reused.Alive()).To(BeFalse(), "another process has the PID")
}

func TestIdentity_Alive_isFalseAfterExit(t *testing.T) {
	g := NewWithT(t)
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cmd.Start()).To(Succeed())
	started, err := host.ProcessStartTime(cmd.Process.Pid)
	g.Expect(err).NotTo(HaveOccurred())
	child := record.Identity{PID: cmd.Process.Pid, Started: started}
	g.Expect(child.Alive()).To(BeTrue())

	g.Expect(stdin.Close()).To(Succeed())
	g.Eventually(child.Alive).Should(BeFalse(), "a zombie has exited")
	_, err = host.ProcessStartTime(cmd.Process.Pid)
	g.Expect(err).To(MatchError(os.ErrNotExist))

	g.Expect(cmd.Wait()).To(Succeed())
	g.Expect(child.Alive()).To(BeFalse())
	_, err = host.ProcessStartTime(cmd.Process.Pid)
	g.Expect(err).To(MatchError(os.ErrNotExist))
}
