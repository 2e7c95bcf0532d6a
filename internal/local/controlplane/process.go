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

// Process identifies a process for good: a pid alone may be given to another.
type Process struct {
	PID int `json:"pid"`
	// Started is when it began, in the words of the operating system.
	Started string `json:"started"`
}

// self returns the identity of this process.
func self() (Process, error) {
	started, err := processStarted(os.Getpid())
	return Process{PID: os.Getpid(), Started: started}, err
}

// alive tells whether the process exists and has not ended.
func (p Process) alive() bool {
	if p.PID <= 0 || p.Started == "" {
		return false
	}
	started, err := processStarted(p.PID)
	return err == nil && started == p.Started
}

// signal sends a signal to the process and to no other: the handle is taken
// before the identity is checked, so a pid that is given to another in between
// does no harm. A process that is gone is no error.
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

// EndBelow ends every process of this user whose home directory is the given
// one, or lies below it, and blocks until all are gone. So do those of programs that a
// control plane runs, and of what they start. Here and there that cannot be
// told, and then nothing is ended.
func EndBelow(ctx context.Context, dir string, grace time.Duration) error {
	below := func(entry string) bool { return strings.HasPrefix(entry+"/", "HOME="+dir+"/") }
	// What ends may have started another meanwhile.
	for left := processesWith(below); len(left) > 0; left = processesWith(below) {
		for _, process := range left {
			if err := process.end(ctx, grace); err != nil {
				return err
			}
		}
	}
	return nil
}

// supervisorsOf finds supervisors of a directory that is gone, by what they
// were started with.
func supervisorsOf(dir string) []Process {
	return processesWith(func(entry string) bool { return entry == supervisorEnv+"="+dir })
}

// end asks the process to end, and kills it after the grace period.
func (p Process) end(ctx context.Context, grace time.Duration) error {
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
		if !pause(ctx, pollInterval) {
			return fmt.Errorf("waiting for process %d to end: %w", p.PID, context.Cause(ctx))
		}
	}
	return nil
}
