package testenv_test

import (
	"net"
	"os/exec"
	"strconv"
	"testing"

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
			g.Expect(testenv.ProcessesOf(text)).To(ConsistOf(HavePrefix(strconv.Itoa(cmd.Process.Pid) + " /bin/sh -c read line")))
			g.Expect(stdin.Close()).To(Succeed())
			_ = cmd.Wait()
			g.Expect(testenv.ProcessesOf(text)).To(BeEmpty())
		})
	}
}
