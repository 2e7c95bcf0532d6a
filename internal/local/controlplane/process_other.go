//go:build !linux

package controlplane

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// processStarted returns the time at which a process began.
func processStarted(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "lstart=,stat=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return "", fmt.Errorf("reading process %d: %w", pid, os.ErrNotExist)
	}
	fields := strings.Fields(string(out))
	if len(fields) < 2 || strings.HasPrefix(fields[len(fields)-1], "Z") {
		return "", fmt.Errorf("process %d has ended: %w", pid, os.ErrNotExist)
	}
	return strings.Join(fields[:len(fields)-1], " "), nil
}

// childAttributes: a child outlives a supervisor that is killed; the next one
// ends it.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// processesWith finds none here: a supervisor notices by itself that its
// directory is gone.
func processesWith(func(string) bool) []Process { return nil }

// linkSupervisor writes the command line: a reader cannot tell here whether the
// supervisor lives.
func (l layout) linkSupervisor() error {
	return writeFile(l.supervisorLink(), []byte(strings.Join(os.Args, "\x00")), 0o600)
}

// closeOnExec does nothing here.
func closeOnExec() {}
