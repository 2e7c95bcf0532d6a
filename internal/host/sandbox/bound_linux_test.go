package sandbox_test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/host/sandbox"
	_ "github.com/appthrust/capt/internal/testenv/waits"
)

// keeperEnv makes the test program start a bound process, print its ID and wait.
const keeperEnv = "CAPT_TEST_KEEPER"

// leaverEnv makes the test program leave its process group for the given one, and wait.
const leaverEnv = "CAPT_TEST_LEAVER"

func TestMain(m *testing.M) {
	if group, found := os.LookupEnv(leaverEnv); found {
		leave(group)
	}
	if hidden, found := os.LookupEnv(keeperEnv); found {
		keep(hidden)
	}
	os.Exit(m.Run())
}

// keep starts a process in a sandbox that hides a file, or in none.
func keep(hidden string) {
	var rules *sandbox.Rules
	if hidden != "" {
		rules = &sandbox.Rules{Hidden: []string{hidden}}
	}
	b, err := rules.StartBound(exec.Command("sleep", "600"))
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString(strconv.Itoa(b.Pid()) + "\n")
	<-b.Ended()
	os.Exit(0)
}

// leave joins a process group, and ignores what asks it to end.
func leave(group string) {
	id, err := strconv.Atoi(group)
	if err == nil {
		err = syscall.Setpgid(0, id)
	}
	if err != nil {
		panic(err)
	}
	signal.Ignore(syscall.SIGTERM)
	_, _ = os.Stdout.WriteString("left\n")
	<-time.After(10 * time.Minute)
	os.Exit(0)
}

// A provider is any program, and may leave its process group.
func TestSignal_reachesAProcessThatLeftItsGroup(t *testing.T) {
	g := NewWithT(t)
	var rules *sandbox.Rules
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), leaverEnv+"="+strconv.Itoa(syscall.Getpgrp()))
	read, write, err := os.Pipe()
	g.Expect(err).NotTo(HaveOccurred())
	defer read.Close()
	cmd.Stdout, cmd.Stderr = write, os.Stderr
	b, err := rules.StartBound(cmd)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(write.Close()).To(Succeed())
	g.Expect(bufio.NewReader(read).ReadString('\n')).To(Equal("left\n"))
	t.Cleanup(func() { _ = syscall.Kill(b.Pid(), syscall.SIGKILL) })
	b.Signal(syscall.SIGTERM)
	b.Signal(syscall.SIGKILL)
	g.Eventually(b.Ended()).Should(BeClosed(), "nothing else would end it")
}

func TestStartBound_endsWithThisProcess(t *testing.T) {
	for name, hidden := range map[string]string{"with a sandbox": filepath.Join(newTree(t), "config"), "without": ""} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			keeper := exec.Command("/proc/self/exe")
			keeper.Env = append(os.Environ(), keeperEnv+"="+hidden)
			out, err := keeper.StdoutPipe()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(keeper.Start()).To(Succeed())
			line, err := bufio.NewReader(out).ReadString('\n')
			g.Expect(err).NotTo(HaveOccurred())
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			g.Expect(err).NotTo(HaveOccurred())
			alive := func() error {
				_, err := host.ProcessStartTime(pid)
				return err
			}
			// Nothing shows when the thread ends, so no event can replace this time.
			g.Consistently(alive, "200ms").Should(Succeed(), "it does not end with the thread that started it")
			g.Expect(keeper.Process.Kill()).To(Succeed())
			_ = keeper.Wait()
			g.Eventually(alive).Should(MatchError(os.ErrNotExist))
		})
	}
}

func TestStartBound_leavesNoProcessOfItsGroup(t *testing.T) {
	g := NewWithT(t)
	pidFile := filepath.Join(t.TempDir(), "pid")
	b, err := (*sandbox.Rules)(nil).StartBound(exec.Command("sh", "-c", "sleep 600 & echo $! > "+pidFile))
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(b.Ended()).Should(BeClosed())
	text, err := os.ReadFile(pidFile)
	g.Expect(err).NotTo(HaveOccurred())
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() error {
		_, err := host.ProcessStartTime(pid)
		return err
	}).Should(MatchError(os.ErrNotExist))
	b.Signal(syscall.SIGKILL) // It has no effect.
}

// A thread of this process in the sandbox of the command would open it the memory and the
// files of this process.
func TestStartBound_doesNotReachThisProcess(t *testing.T) {
	g := NewWithT(t)
	cmd := exec.Command("sh", "-c", `cd /proc/$PPID/task
for thread in *; do
  if (: < $thread/mem) 2>/dev/null; then echo "memory of $thread"; fi
  for file in $thread/fd/*; do readlink $file; done
done 2>/dev/null; echo end`)
	var out bytes.Buffer
	cmd.Stdout = &out
	b, err := (&sandbox.Rules{Hidden: []string{filepath.Join(newTree(t), "config")}}).StartBound(cmd)
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(b.Ended()).Should(BeClosed())
	g.Expect(b.State()).To(Equal("exit status 0"))
	g.Expect(out.String()).To(Equal("end\n"))
}
