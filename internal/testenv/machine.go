package testenv

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/procfs"
)

// FreeAddress returns a local address with a port that no process uses.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
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
