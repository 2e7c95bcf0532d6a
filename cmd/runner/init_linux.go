package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// orphanTimeout is how long the init process waits for a tool whose runner has
// crashed, so that the tool can save its state.
const orphanTimeout = 10 * time.Minute

// runInit is the main function of the container's init process (PID 1). It starts
// the runner as its child and returns the exit code. When the init process ends,
// the kernel kills all others at once. So the runner must not be the init process:
// if it crashed during an apply, the tool could not save its state.
func runInit() int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	child, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		return 1
	}
	runnerEnded, allEnded := make(chan syscall.WaitStatus, 1), make(chan struct{})
	go reap(child.Pid, runnerEnded, allEnded)
	for {
		select {
		case <-stop:
			_ = child.Signal(syscall.SIGTERM)
		case status := <-runnerEnded:
			if !status.Signaled() {
				return status.ExitStatus()
			}
			interruptOrphans()
			select {
			case <-allEnded:
			case <-time.After(orphanTimeout):
			}
			return 128 + int(status.Signal())
		}
	}
}

// reap waits for all processes of the container, including orphans.
func reap(runner int, runnerEnded chan<- syscall.WaitStatus, allEnded chan<- struct{}) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case pid == runner:
			runnerEnded <- status
		case errors.Is(err, syscall.ECHILD):
			close(allEnded)
			return
		}
	}
}

// interruptOrphans interrupts the tool that a crashed runner left. The tool saves
// its state and ends its own child processes.
func interruptOrphans() {
	processes, err := procfs.AllProcs()
	if err != nil {
		return
	}
	for _, process := range processes {
		stat, err := process.Stat()
		if err == nil && stat.PPID == os.Getpid() && stat.State != "Z" {
			_ = syscall.Kill(process.PID, syscall.SIGINT)
		}
	}
}
