package testenv_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/testenv"
)

// TestMain lets this program listen as a child of a test.
func TestMain(m *testing.M) {
	if address := os.Getenv("CAPT_TEST_LISTEN"); address != "" {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			panic(err)
		}
		fmt.Println(listener.Addr().(*net.TCPAddr).Port)
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestListenersOf_findsTheAddressesOfAProgram(t *testing.T) {
	for address, loopback := range map[string]bool{"127.0.0.1:0": true, "[::1]:0": true, ":0": false, "0.0.0.0:0": false} {
		t.Run(address, func(t *testing.T) {
			g := NewWithT(t)
			dir := t.TempDir()
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), "CAPT_TEST_LISTEN="+address, "CAPT_TEST_DIR="+dir)
			stdin, err := child.StdinPipe()
			g.Expect(err).NotTo(HaveOccurred())
			stdout, err := child.StdoutPipe()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(child.Start()).To(Succeed())
			t.Cleanup(func() { _ = stdin.Close(); _ = child.Wait() })
			var port int
			if _, err := fmt.Fscan(stdout, &port); err != nil {
				t.Skipf("cannot listen on %s", address)
			}
			found, err := testenv.ListenersOf(dir)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found).To(HaveLen(1))
			g.Expect(found[0].Program).To(Equal("testenv.test"))
			g.Expect(found[0].Port).To(Equal(port))
			g.Expect(found[0].Address.IsLoopback()).To(Equal(loopback), "%s", found[0])
		})
	}
}
