package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// runInit is the main function of the container's init process (PID 1). It starts
// the runner as its child and returns the exit code. When the init process ends,
// the kernel kills all others at once. So the runner must not be the init process:
// if it crashed during an apply, the tool could not save its state.
//
// After a crash, the init process starts the runner once more, to wait for the tool
// and to save the state, which is deleted with the pod.
func runInit() int {
	stop, ended := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	signal.Notify(ended, syscall.SIGCHLD)
	status, err := runChild(os.Args, ended, stop)
	if err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		return 1
	}
	if status == 0 {
		return 0
	}
	// No signal ends it before the state is saved. It asks itself whether the run is canceled.
	if _, err := runChild(append(slices.Clone(os.Args), "--"+saveFlag), ended, nil); err != nil {
		fmt.Fprintln(os.Stderr, "runner: saving the state:", err)
	}
	return status
}

// runChild starts this program once more, waits for its end and returns its exit code. It passes
// on signals, and reaps the orphans of the container.
func runChild(args []string, ended, stop <-chan os.Signal) (int, error) {
	child, err := os.StartProcess("/proc/self/exe", args, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return 0, err
	}
	for {
		if status, found := reap(child.Pid); found {
			return status, nil
		}
		select {
		case <-ended:
		case <-stop:
			_ = child.Signal(syscall.SIGTERM)
		}
	}
}

// reap waits for all processes that have ended, and returns the exit code of a child if it is
// one of them.
func reap(child int) (exitCode int, found bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil, pid <= 0:
			return exitCode, found
		case pid == child && status.Signaled():
			exitCode, found = 128+int(status.Signal()), true
		case pid == child:
			exitCode, found = status.ExitStatus(), true
		}
	}
}
