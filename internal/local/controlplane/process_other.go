//go:build !linux

package controlplane

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/appthrust/capt/internal/host"
)

// processStarted returns the time at which a process started.
func processStarted(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "lstart=,stat=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return "", fmt.Errorf("reading process %d: %w", pid, os.ErrNotExist)
	}
	fields := strings.Fields(string(out))
	if len(fields) < 2 || strings.HasPrefix(fields[len(fields)-1], "Z") {
		return "", fmt.Errorf("process %d has exited: %w", pid, os.ErrNotExist)
	}
	return strings.Join(fields[:len(fields)-1], " "), nil
}

// childAttributes cannot tie a child to the supervisor on this system. A child
// outlives a killed supervisor; the next supervisor stops it.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// processesWith finds no processes on this system. A supervisor exits when its
// directory no longer exists.
func processesWith(func(string) bool) []Process { return nil }

// linkSupervisor writes the command line to a file. On this system the file does not
// show whether the supervisor is running.
func (l layout) linkSupervisor() error {
	return host.WriteFile(l.supervisorLink(), []byte(strings.Join(os.Args, "\x00")), 0o600)
}

// closeOnExec does nothing on this system.
func closeOnExec() {}
