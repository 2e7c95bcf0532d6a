//go:build linux

package record_test

import (
	"os"
	"os/exec"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform/record"
)

// rename changes the name of this process for the duration of a test.
func rename(t *testing.T, name string) {
	t.Helper()
	const comm = "/proc/self/comm"
	previous, err := os.ReadFile(comm)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.WriteFile(comm, previous, 0o644) })
	if err := os.WriteFile(comm, []byte(name), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestProcessStartTime_acceptsAnyProcessName(t *testing.T) {
	want, err := record.ProcessStartTime(os.Getpid())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(want).To(BeNumerically(">", 0))
	for _, name := range []string{"two words", "(a)", "a) b", ") S 1 1 1", "a) (b", "))) ", "x)", "tab\there"} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			rename(t, name)
			g.Expect(record.ProcessStartTime(os.Getpid())).To(Equal(want))
		})
	}
}

func TestIdentity_Alive(t *testing.T) {
	g := NewWithT(t)
	started, err := record.ProcessStartTime(os.Getpid())
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
	started, err := record.ProcessStartTime(cmd.Process.Pid)
	g.Expect(err).NotTo(HaveOccurred())
	child := record.Identity{PID: cmd.Process.Pid, Started: started}
	g.Expect(child.Alive()).To(BeTrue())

	g.Expect(stdin.Close()).To(Succeed())
	g.Eventually(child.Alive).Should(BeFalse(), "a zombie has exited")
	_, err = record.ProcessStartTime(cmd.Process.Pid)
	g.Expect(err).To(MatchError(os.ErrNotExist))

	g.Expect(cmd.Wait()).To(Succeed())
	g.Expect(child.Alive()).To(BeFalse())
	_, err = record.ProcessStartTime(cmd.Process.Pid)
	g.Expect(err).To(MatchError(os.ErrNotExist))
}

func TestBootID(t *testing.T) {
	g := NewWithT(t)
	g.Expect(record.BootID()).To(MatchRegexp(`^[0-9a-f-]{36}$`))
	g.Expect(record.BootID()).To(Equal(record.BootID()))
}
