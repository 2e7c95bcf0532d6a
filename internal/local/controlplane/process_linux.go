package controlplane

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// processStarted returns the boot and the clock tick at which a process began.
// A process that only waits to be reaped has ended.
func processStarted(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", fmt.Errorf("reading process %d: %w", pid, err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading the boot's identity: %w", err)
	}
	// The name, in parentheses, may hold anything; what follows is plain.
	const state, startTime = 0, 19
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= startTime {
		return "", fmt.Errorf("reading process %d: unexpected form", pid)
	}
	if fields[state] == "Z" || fields[state] == "X" {
		return "", fmt.Errorf("process %d has ended: %w", pid, os.ErrNotExist)
	}
	return strings.TrimSpace(string(boot)) + "/" + fields[startTime], nil
}

// childAttributes have the kernel kill a child when the supervisor dies in any
// way. Killing is safe: what etcd has written is the kernel's to keep.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// processesWith finds the other processes that have been started with such an
// entry in their environment.
func processesWith(is func(entry string) bool) []Process {
	paths, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	var found []Process
	for _, path := range paths {
		// Processes of others and those that just ended cannot be read.
		environ, err := os.ReadFile(path)
		if err != nil || !slices.ContainsFunc(strings.Split(string(environ), "\x00"), is) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		if started, err := processStarted(pid); err == nil {
			found = append(found, Process{PID: pid, Started: started})
		}
	}
	return found
}

// linkSupervisor makes a link that leads to this process' command line, so that
// reading it tells whether the supervisor lives.
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

// closeOnExec keeps files that this process was given from what it starts.
func closeOnExec() {
	const first, last = 3, ^uint(0) >> 1
	_ = unix.CloseRange(first, last, unix.CLOSE_RANGE_CLOEXEC)
}
