package testenv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/prometheus/procfs"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Ports below those that the kernel gives to outgoing connections. A connection that takes
// the port before the program of a test listens on it would keep it from starting.
const firstPort, lastPort = 20000, 32767

// reserved are sockets of UDP with the numbers of the ports that this process was given, so
// that no other one is given them before a program listens.
var reserved sync.Map

// FreeAddress returns a local address with a port that no process uses.
func FreeAddress() (string, error) {
	for {
		number := firstPort + rand.IntN(lastPort-firstPort+1)
		reservation, err := net.ListenPacket("udp", ":"+strconv.Itoa(number))
		var l net.Listener
		if err == nil {
			reserved.Store(number, reservation)
			l, err = net.Listen("tcp", ":"+strconv.Itoa(number))
		}
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			continue
		case err != nil:
			return "", fmt.Errorf("finding a free port: %w", err)
		}
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(number)), l.Close()
	}
}

// ServeOnFreePort makes webhooks be called on a local address that no process uses.
func ServeOnFreePort(hooks *envtest.WebhookInstallOptions) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	hooks.LocalServingHost = "127.0.0.1"
	hooks.LocalServingPort, err = strconv.Atoi(port)
	return err
}

// freePort returns the port of a FreeAddress.
func freePort() (string, error) {
	address, err := FreeAddress()
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(address)
	return port, err
}

// ProcessesOf returns the command lines of the other processes whose arguments or
// environment contain a text, such as the directory of a test.
func ProcessesOf(text string) []string {
	processes, err := procfs.AllProcs()
	if err != nil {
		return []string{err.Error()}
	}
	contains := func(s string) bool { return strings.Contains(s, text) }
	var found []string
	for _, process := range processes {
		if process.PID == os.Getpid() {
			continue
		}
		// Processes that have exited have neither.
		arguments, _ := process.CmdLine()
		environment, _ := process.Environ()
		if slices.ContainsFunc(arguments, contains) || slices.ContainsFunc(environment, contains) {
			found = append(found, fmt.Sprintf("%d %s", process.PID, strings.Join(arguments, " ")))
		}
	}
	return found
}
