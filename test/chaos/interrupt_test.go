package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/procfs"

	"github.com/appthrust/capt/internal/testenv"
)

// testTimeout is how long an operation may take on a busy machine.
const testTimeout = 4 * time.Minute

// output is the output of a running program.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func TestInterrupt_removesTheEnvironment(t *testing.T) {
	if os.Getenv("CAPT_E2E") != "1" {
		t.Skip("run `make e2e`: the test starts a whole environment")
	}
	t.Parallel()
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	dir := t.TempDir()
	program, temp := filepath.Join(dir, "chaos"), filepath.Join(dir, "tmp")
	g.Expect(os.Mkdir(temp, 0o700)).To(Succeed())
	build := exec.Command("go", "build", "-o", program, ".")
	out, err := build.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))

	var text output
	cmd := exec.Command(program, "-schedules=1", "-out="+filepath.Join(dir, "chaos.json"))
	cmd.Dir, cmd.Env = root, append(os.Environ(), "TMPDIR="+temp)
	cmd.Stdout, cmd.Stderr = &text, &text
	g.Expect(cmd.Start()).To(Succeed())
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	g.Eventually(text.String, testTimeout, 100*time.Millisecond).Should(ContainSubstring("The environment is running"))
	g.Expect(text.String()).To(ContainSubstring("captctl local down chaos --dir "+temp), "how to remove it is known from the start")
	// The schedule is in progress.
	g.Eventually(func() ([]string, error) { return filepath.Glob(filepath.Join(temp, "*", "journals", "*")) }, testTimeout, 100*time.Millisecond).
		ShouldNot(BeEmpty(), text.String())
	g.Expect(cmd.Process.Signal(syscall.SIGINT)).To(Succeed())
	g.Eventually(exited, testTimeout).Should(Receive(HaveOccurred()), text.String())
	g.Expect(cmd.ProcessState.ExitCode()).To(Equal(exitFailure), text.String())
	g.Expect(text.String()).To(ContainSubstring("Interrupted: removing the environment"))
	g.Expect(os.ReadDir(temp)).To(BeEmpty(), text.String())
	// A supervisor exits when all of its processes have stopped.
	g.Eventually(func() ([]string, error) { return processesIn(temp) }, testTimeout).Should(BeEmpty())
}

// processesIn returns the command lines of processes that contain a directory.
func processesIn(dir string) ([]string, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	var found []string
	for _, proc := range all {
		args, err := proc.CmdLine()
		if line := strings.Join(args, " "); err == nil && strings.Contains(line, dir) {
			found = append(found, line)
		}
	}
	return found, nil
}
