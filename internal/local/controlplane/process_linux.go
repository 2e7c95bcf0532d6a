package controlplane

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/appthrust/capt/internal/host"
)

// processStarted returns the boot ID and the clock tick at which a process started.
// A process that has exited but has not been reaped does not exist.
func processStarted(pid int) (string, error) {
	started, err := host.ProcessStartTime(pid)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s/%d", host.BootID(), started), nil
}

// childAttributes makes the kernel kill a child when the supervisor dies. Killing
// etcd is safe: the kernel keeps the data that etcd has written.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// processesWith returns the other processes whose initial environment has a matching
// entry.
func processesWith(matches func(entry string) bool) []Process {
	processes, err := procfs.AllProcs()
	if err != nil {
		return nil
	}
	var found []Process
	for _, process := range processes {
		// Processes of other users and those that have exited are unreadable.
		environ, err := process.Environ()
		if err != nil || process.PID == os.Getpid() || !slices.ContainsFunc(environ, matches) {
			continue
		}
		if started, err := processStarted(process.PID); err == nil {
			found = append(found, Process{PID: process.PID, Started: started})
		}
	}
	return found
}

// linkSupervisor creates a link to the command line of this process, so that other
// programs can check whether the supervisor is running by reading it.
func (l layout) linkSupervisor() error {
	link := l.supervisorLink()
	temporary := link + ".new"
	os.Remove(temporary)
	err := os.Symlink(fmt.Sprintf("/proc/%d/cmdline", os.Getpid()), temporary)
	if err == nil {
		err = os.Rename(temporary, link)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("linking the supervisor: %w", err)
	}
	return err
}

// closeOnExec prevents child processes from inheriting files that this process has
// inherited.
func closeOnExec() {
	const first, last = 3, ^uint(0) >> 1
	_ = unix.CloseRange(first, last, unix.CLOSE_RANGE_CLOEXEC)
}
