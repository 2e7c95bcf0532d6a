package command

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform/command/binary"
)

// A second interrupt would make the tool abort without saving its state.
func TestAwaitEnd_interruptsAProcessOnlyOnce(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	cmd := exec.Command("/bin/sh", "-c", `trap 'echo interrupted >> signals' INT; echo ready > signals; while [ ! -e end ]; do sleep 0.05; done`)
	cmd.Dir = dir
	g.Expect(cmd.Start()).To(Succeed())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	signals := func() string {
		text, _ := os.ReadFile(filepath.Join(dir, "signals"))
		return strings.ReplaceAll(string(text), "\n", " ")
	}
	g.Eventually(signals).Should(Equal("ready "))

	tool := &binary.Tool{Path: "/bin/sh"}
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		// AwaitEnd asks this before it interrupts the tool, each time that it looks for it.
		calls := 0
		observed := func() (bool, error) {
			if calls++; calls > 1 && signals() != "ready " {
				cancel()
			}
			return true, nil
		}
		g.Expect(tool.AwaitEnd(ctx, dir, observed, binary.Patience{Grace: time.Hour})).To(MatchError(context.Canceled))
		g.Expect((&Workdir{Tool: tool, Dir: dir}).Scrub()).To(Succeed(), "the record of the interrupt stays")
	}
	g.Expect(os.WriteFile(filepath.Join(dir, "end"), nil, 0o600)).To(Succeed())
	g.Expect(<-ended).To(Succeed())
	g.Expect(tool.AwaitEnd(context.Background(), dir, nil, binary.Patience{Grace: time.Minute})).To(Succeed())
	g.Expect(signals()).To(Equal("ready interrupted "))
}

// The runner of the process was killed, and it still creates a resource.
func TestAwaitEnd_leavesAProcessItsTime(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	cmd := exec.Command("/bin/sh", "-c", `trap 'echo interrupted >> signals; exit' INT; echo ready > signals; while [ ! -e end ]; do sleep 0.05; done`)
	cmd.Dir = dir
	started := time.Now()
	g.Expect(cmd.Start()).To(Succeed())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	signals := func() (string, error) {
		text, err := os.ReadFile(filepath.Join(dir, "signals"))
		return string(text), err
	}
	g.Eventually(signals).Should(Equal("ready\n"))
	tool := &binary.Tool{Path: "/bin/sh"}

	looks := 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	others := func() (bool, error) {
		if looks++; looks > 5 {
			cancel()
		}
		return false, nil
	}
	g.Expect(tool.AwaitEnd(ctx, dir, others, binary.Patience{Limit: time.Hour})).To(MatchError(context.Canceled))
	g.Expect(signals()).To(Equal("ready\n"), "it was looked at five times and not interrupted")

	const limit = 3 * time.Second
	g.Expect(tool.AwaitEnd(t.Context(), dir, nil, binary.Patience{Limit: limit, Grace: time.Hour})).To(Succeed())
	g.Expect(signals()).To(Equal("ready\ninterrupted\n"))
	// The kernel says in whole seconds when the machine was started.
	g.Expect(time.Since(started)).To(BeNumerically(">", limit-1100*time.Millisecond))
	g.Expect(<-ended).To(Succeed())
}

func TestAwaitEnd_waitsForAProcessThatMayBecomeTheTool(t *testing.T) {
	g := NewWithT(t)
	tool, calls := &binary.Tool{Path: "/bin/none"}, 0
	others := func() (bool, error) { calls++; return calls < 3, nil }
	g.Expect(tool.AwaitEnd(t.Context(), t.TempDir(), others, binary.Patience{Grace: time.Minute})).To(Succeed())
	g.Expect(calls).To(Equal(3))

	unknown := errors.New("unknown")
	others = func() (bool, error) { return false, unknown }
	g.Expect(tool.AwaitEnd(t.Context(), t.TempDir(), others, binary.Patience{Grace: time.Minute})).To(MatchError(unknown))
}

// A run that did not get the lock of the state ends while another one works.
func TestScrub_leavesTheDirectoryOfAnotherRunner(t *testing.T) {
	g := NewWithT(t)
	others := true
	w := &Workdir{Dir: t.TempDir(), Others: func() (bool, error) { return others, nil }}
	g.Expect(writeFile(w.PlanFile(), []byte("plan"))).To(Succeed())
	g.Expect(w.Scrub()).To(Succeed())
	g.Expect(w.PlanFile()).To(BeAnExistingFile())
	others = false
	g.Expect(w.Scrub()).To(Succeed())
	g.Expect(w.PlanFile()).NotTo(BeAnExistingFile())
}

// Another process may interrupt the tool, too. A second interrupt would make it
// abort without saving its state.
func TestApply_isNotInterruptedTwice(t *testing.T) {
	eachTool(t, func(t *testing.T, tool *binary.Tool) {
		g := NewWithT(t)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		w, log := workdir(t, tool)
		dir := t.TempDir()
		session := planned(ctx, t, w, slowRequest(dir))
		done := make(chan error, 1)
		go func() {
			_, err := session.Apply(ctx, w.PlanFile(), nil)
			done <- err
		}()
		g.Eventually(func() ([]byte, error) { return os.ReadFile(filepath.Join(dir, "created")) }).Should(ContainSubstring("slow"))
		pids := tool.Running(w.Dir)
		g.Expect(pids).To(HaveLen(1))
		g.Expect(syscall.Kill(pids[0], syscall.SIGTERM)).To(Succeed())
		g.Eventually(log.String).Should(ContainSubstring(binary.InterruptReceived))
		cancel()
		g.Eventually(done).Should(Receive())
		g.Expect(log.String()).NotTo(ContainSubstring("Two interrupts received"))
		g.Expect(localStateOf(t, w, session).Addresses).To(ContainElement("terraform_data.first"))
	})
}
