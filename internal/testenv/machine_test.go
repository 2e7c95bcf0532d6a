package testenv_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/testenv"
)

func TestFreeAddress(t *testing.T) {
	g := NewWithT(t)
	address, err := testenv.FreeAddress()
	g.Expect(err).NotTo(HaveOccurred())
	listener, err := net.Listen("tcp", address)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(listener.Close()).To(Succeed())
}

func TestProcessesOf(t *testing.T) {
	text := t.TempDir()
	for name, prepare := range map[string]func(*exec.Cmd){
		"arguments":   func(cmd *exec.Cmd) { cmd.Args = append(cmd.Args, text) },
		"environment": func(cmd *exec.Cmd) { cmd.Env = []string{"DIR=" + text} },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(testenv.ProcessesOf(text)).To(BeEmpty())
			// The shell waits for its input.
			cmd := exec.Command("/bin/sh", "-c", "read line")
			prepare(cmd)
			stdin, err := cmd.StdinPipe()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(cmd.Start()).To(Succeed())
			// Its arguments and environment appear a moment after its start.
			g.Eventually(testenv.ProcessesOf).WithArguments(text).Should(ConsistOf(HavePrefix(strconv.Itoa(cmd.Process.Pid) + " /bin/sh -c read line")))
			g.Expect(stdin.Close()).To(Succeed())
			_ = cmd.Wait()
			g.Expect(testenv.ProcessesOf(text)).To(BeEmpty())
		})
	}
}

func TestKillAtEnd(t *testing.T) {
	const variable = "CAPT_TEST_KILL_AT_END"
	if dir := os.Getenv(variable); dir != "" {
		if _, err := testenv.KillAtEnd(dir); err != nil {
			t.Fatal(err)
		}
		inEnvironment, inArguments := exec.Command("sleep", "600"), exec.Command("sleep", "600")
		inArguments.Args[0], inArguments.Env = dir, []string{"PATH="}
		if err := errors.Join(inEnvironment.Start(), inArguments.Start()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
	}
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "environment")
	g.Expect(os.Mkdir(dir, 0o700)).To(Succeed())
	cmd := exec.Command(os.Args[0], "-test.run=^TestKillAtEnd$")
	cmd.Env = append(os.Environ(), variable+"="+dir)
	g.Expect(cmd.Start()).To(Succeed())
	g.Eventually(func() []string { return testenv.ProcessesOf(dir) }).Should(HaveLen(3), "the test and its programs")
	g.Expect(cmd.Process.Kill()).To(Succeed())
	_ = cmd.Wait()
	g.Eventually(func() []string { return testenv.ProcessesOf(dir) }).Should(BeEmpty())
	g.Eventually(dir).ShouldNot(BeADirectory())
}
