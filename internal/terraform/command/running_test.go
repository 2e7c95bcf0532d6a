package command

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A second interrupt would make the tool abort without saving its state.
func TestAwaitEnd_interruptsAProcessOnlyOnce(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	cmd := exec.Command("/bin/sh", "-c", `trap 'echo interrupted >> signals' INT; echo ready > signals; while [ ! -e end ]; do sleep 0.05; done`)
	cmd.Dir = dir
	g.Expect(cmd.Start()).To(Succeed())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	signals := func() string {
		text, _ := os.ReadFile(filepath.Join(dir, "signals"))
		return strings.ReplaceAll(string(text), "\n", " ")
	}
	g.Eventually(signals, 10*time.Second).Should(Equal("ready "))

	tool := &Tool{Path: "/bin/sh"}
	for range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		g.Expect(tool.AwaitEnd(ctx, dir, time.Minute)).To(MatchError(context.DeadlineExceeded))
		cancel()
	}
	g.Eventually(signals, 10*time.Second).Should(Equal("ready interrupted "))
	g.Expect(os.WriteFile(filepath.Join(dir, "end"), nil, 0o600)).To(Succeed())
	g.Expect(<-done).To(Succeed())
	g.Expect(tool.AwaitEnd(context.Background(), dir, time.Minute)).To(Succeed())
	g.Expect(signals()).To(Equal("ready interrupted "))
}
