package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// Process identifies a process. The PID alone does not, because it can be reused.
type Process struct {
	PID int `json:"pid"`
	// Started is the start time in the format of the operating system.
	Started string `json:"started"`
}

// self returns the identity of this process.
func self() (Process, error) {
	started, err := processStarted(os.Getpid())
	return Process{PID: os.Getpid(), Started: started}, err
}

// alive reports whether the process exists and has not exited.
func (p Process) alive() bool {
	if p.PID <= 0 || p.Started == "" {
		return false
	}
	started, err := processStarted(p.PID)
	return err == nil && started == p.Started
}

// signal sends a signal to the process and to no other: it opens the handle before
// it checks the identity, so a PID that is reused in between does no harm. A process
// that has exited is not an error.
func (p Process) signal(signal syscall.Signal) error {
	if p.PID <= 1 {
		return nil
	}
	handle, err := os.FindProcess(p.PID)
	if err != nil {
		return fmt.Errorf("finding process %d: %w", p.PID, err)
	}
	defer func() { _ = handle.Release() }()
	if !p.alive() {
		return nil
	}
	if err := handle.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signalling process %d: %w", p.PID, err)
	}
	return nil
}

// StopProcesses stops every process of this user whose home directory is dir or
// below it, and blocks until they have exited. The programs of a control plane have
// such a home directory, and so have the processes they start. On systems without
// /proc it stops nothing.
func StopProcesses(ctx context.Context, dir string, grace time.Duration) error {
	below := func(entry string) bool { return strings.HasPrefix(entry+"/", "HOME="+dir+"/") }
	// A process may have started another before it exited.
	for found := processesWith(below); len(found) > 0; found = processesWith(below) {
		for _, process := range found {
			if err := process.stop(ctx, grace); err != nil {
				return err
			}
		}
	}
	return nil
}

// supervisorsOf returns the supervisors of a directory that no longer exists. It
// finds them by their environment.
func supervisorsOf(dir string) []Process {
	return processesWith(func(entry string) bool { return entry == supervisorEnv+"="+dir })
}

// stop terminates the process, kills it after the grace period, and blocks until it
// has exited.
func (p Process) stop(ctx context.Context, grace time.Duration) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	deadline := time.Now().Add(grace)
	for killed := false; p.alive(); {
		if !killed && time.Now().After(deadline) {
			killed = true
			if err := p.signal(syscall.SIGKILL); err != nil {
				return err
			}
		}
		if !sleep(ctx, pollInterval) {
			return fmt.Errorf("waiting for process %d to exit: %w", p.PID, context.Cause(ctx))
		}
	}
	return nil
}
