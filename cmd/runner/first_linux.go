package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// afterlife is how long the first process waits for a tool whose runner is
// gone: it is saving its state.
const afterlife = 10 * time.Minute

// first is what the first process of a container does: the runner is a child of
// it. When the first process ends, the kernel kills all others on the spot; so
// it must not be the one that may crash, or a tool in the middle of an apply
// could not save what it did.
func first() int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	child, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		return 1
	}
	ended, alone := make(chan syscall.WaitStatus, 1), make(chan struct{})
	go reap(child.Pid, ended, alone)
	for {
		select {
		case <-stop:
			// Once is enough; the runner takes its time.
			_ = child.Signal(syscall.SIGTERM)
		case status := <-ended:
			if !status.Signaled() {
				return status.ExitStatus()
			}
			interruptOrphans()
			select {
			case <-alone:
			case <-time.After(afterlife):
			}
			return 128 + int(status.Signal())
		}
	}
}

// reap waits for all processes of the container, those included that lost
// their parents.
func reap(runner int, ended chan<- syscall.WaitStatus, alone chan<- struct{}) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case pid == runner:
			ended <- status
		case errors.Is(err, syscall.ECHILD):
			close(alone)
			return
		}
	}
}

// interruptOrphans has the tool end that a dead runner left behind. It saves its
// state first, and ends what it started.
func interruptOrphans() {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return
	}
	for _, path := range stats {
		var pid, parent int
		var state string
		stat, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// The name, in parentheses, may hold anything.
		_, _ = fmt.Sscan(string(stat), &pid)
		_, _ = fmt.Sscan(string(stat[bytes.LastIndexByte(stat, ')')+1:]), &state, &parent)
		if parent == os.Getpid() && state != "Z" {
			_ = syscall.Kill(pid, syscall.SIGINT)
		}
	}
}
