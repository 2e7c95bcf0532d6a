package cli_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli"
)

// terminal is a pseudo-terminal with its keyboard and screen.
type terminal struct {
	keyboard *os.File
	screen   buffer
	// stream is the end that the command uses.
	stream *os.File
}

func newTerminal(t *testing.T, width, height uint16) *terminal {
	t.Helper()
	g := NewWithT(t)
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)).To(Succeed())
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	g.Expect(err).NotTo(HaveOccurred())
	stream, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(unix.IoctlSetWinsize(int(stream.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height})).To(Succeed())
	term := &terminal{keyboard: master, stream: stream}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(&term.screen, master)
	}()
	t.Cleanup(func() {
		_ = stream.Close()
		<-done
		_ = master.Close()
	})
	return term
}

// run runs a command on a terminal.
func (term *terminal) run(h *harness, args ...string) <-chan int {
	code := make(chan int, 1)
	go func() {
		err := execute(h.ctx, cli.Streams{In: term.stream, Out: term.stream, Err: term.stream}, append([]string{"--kubeconfig", env.Kubeconfig, "-n", h.namespace}, args...)...)
		code <- cli.Code(err)
	}()
	return code
}

func TestTerminal_asksForConfirmation(t *testing.T) {
	for typed, approved := range map[string]bool{"y\n": true, "yes\n": true, "n\n": false, "\n": false, "\x04": false} {
		t.Run(fmt.Sprintf("%q", typed), func(t *testing.T) {
			h := newHarness(t)
			h.planned("net")
			term := newTerminal(t, 120, 40)
			code := term.run(h, "approve", "net")
			h.Eventually(term.screen.String).Should(ContainSubstring("Apply plan plan-0123456789abcdef to net? [y/N] "))
			_, err := term.keyboard.WriteString(typed)
			h.Expect(err).NotTo(HaveOccurred())
			h.Eventually(code).Should(Receive(Equal(map[bool]int{true: 0, false: 1}[approved])))
			if approved {
				h.Expect(h.approval().Decision).To(Equal(infrav1.DecisionApprove))
			} else {
				h.Expect(h.approvals()).To(BeEmpty())
			}
		})
	}
}

func TestTerminal_canBeInterruptedAtAQuestion(t *testing.T) {
	h := newHarness(t)
	h.planned("net")
	term := newTerminal(t, 120, 40)
	interrupted, stop := context.WithCancel(h.ctx)
	h.ctx = interrupted
	code := term.run(h, "approve", "net")
	h.Eventually(term.screen.String).Should(HaveSuffix("? [y/N] "))
	stop()
	h.Eventually(code).Should(Receive(Equal(130)))
	h.Eventually(term.screen.String).Should(HaveSuffix("? [y/N] \r\n"))
	h.ctx = t.Context()
	h.Expect(h.approvals()).To(BeEmpty())
	// The command still reads the terminal, as it does until captctl exits.
	_, err := term.keyboard.WriteString("\n")
	h.Expect(err).NotTo(HaveOccurred())
}

func TestTerminal_hasColoursUnlessDisabled(t *testing.T) {
	for _, noColour := range []string{"", "1"} {
		g := NewWithT(t)
		t.Setenv("NO_COLOR", noColour)
		t.Setenv("TERM", "xterm")
		h := &harness{WithT: g, t: t, ctx: t.Context(), namespace: env.Namespace(t)}
		h.planned("net")
		term := newTerminal(t, 120, 40)
		g.Eventually(term.run(h, "show", "plan", "net")).Should(Receive(Equal(0)))
		plain, coloured := "  + aws_vpc.this will be created", "\x1b[32m  +\x1b[0m aws_vpc.this will be created"
		if noColour == "" {
			g.Eventually(term.screen.String).Should(ContainSubstring(coloured))
		} else {
			g.Eventually(term.screen.String).Should(ContainSubstring(plain))
			g.Expect(term.screen.String()).NotTo(ContainSubstring("\x1b"))
		}
	}
}

func TestTerminal_watchRedrawsAndFits(t *testing.T) {
	h := newHarness(t)
	c, infra, vpc := h.network("demo")
	h.setStatus(vpc, func() {
		vpc.Status.Conditions = condition("Ready", "False", "RunFailed", "a long message that does not fit into the first line of this terminal, so that its end is cut off")
	})
	term := newTerminal(t, 80, 5)
	code := term.run(h, "describe", "cluster", "demo", "--watch")
	h.Eventually(term.screen.String).Should(MatchRegexp(`\x1b\[2J\x1b\[H.*NAME`))
	h.Eventually(term.screen.String).Should(ContainSubstring("more lines: enlarge the window"))
	h.Expect(term.screen.String()).NotTo(ContainSubstring("is cut off"))
	h.setStatus(infra, func() { infra.Status.Conditions = condition("Ready", "True", infrav1.ReadyCondition, "") })
	h.Eventually(term.screen.String).Should(ContainSubstring("✓ Ready"))
	h.Expect(env.Client.Delete(h.ctx, c)).To(Succeed())
	h.Eventually(code).Should(Receive(Equal(0)))
}
