package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/appthrust/capt/internal/terraform/runner"
)

// orphanTimeout is how long the init process waits for a tool whose runner has
// crashed, so that the tool can save its state.
const orphanTimeout = 10 * time.Minute

// runInit is the main function of the container's init process (PID 1). It starts
// the runner as its child and returns the exit code. When the init process ends,
// the kernel kills all others at once. So the runner must not be the init process:
// if it crashed during an apply, the tool could not save its state.
//
// After a crash, the init process lets the tool end and starts the runner once more
// to save the state, which is deleted with the pod.
func runInit() int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	child, err := start(os.Args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		return 1
	}
	ended, allEnded := make(chan exit), make(chan struct{})
	go reap(ended, allEnded)
	status := await(child, ended, stop)
	if status == 0 {
		return 0
	}
	interruptOrphans(workDirOf(os.Args))
	waitForOrphans(ended, allEnded)
	saving, err := start(append(slices.Clone(os.Args), "--"+saveFlag))
	if err != nil {
		fmt.Fprintln(os.Stderr, "runner: saving the state:", err)
		return status
	}
	go reap(ended, make(chan struct{}))
	await(saving, ended, stop)
	return status
}

// workDirOf returns the value of the flag --work-dir.
func workDirOf(args []string) string {
	for _, arg := range args {
		if dir, found := strings.CutPrefix(arg, "--work-dir="); found {
			return dir
		}
	}
	return ""
}

// exit is the end of a process.
type exit struct {
	pid    int
	status syscall.WaitStatus
}

func start(args []string) (*os.Process, error) {
	return os.StartProcess("/proc/self/exe", args, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
}

// await waits for the end of a child, to which it passes on signals, and returns its
// exit code.
func await(child *os.Process, ended <-chan exit, stop <-chan os.Signal) int {
	for {
		select {
		case <-stop:
			_ = child.Signal(syscall.SIGTERM)
		case e := <-ended:
			switch {
			case e.pid != child.Pid:
			case e.status.Signaled():
				return 128 + int(e.status.Signal())
			default:
				return e.status.ExitStatus()
			}
		}
	}
}

// waitForOrphans waits until no process is left in the container.
func waitForOrphans(ended <-chan exit, allEnded <-chan struct{}) {
	timeout := time.After(orphanTimeout)
	for {
		select {
		case <-ended:
		case <-allEnded:
			return
		case <-timeout:
			return
		}
	}
}

// reap waits for all processes of the container, including orphans.
func reap(ended chan<- exit, allEnded chan<- struct{}) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.ECHILD):
			close(allEnded)
			return
		case pid > 0:
			ended <- exit{pid: pid, status: status}
		}
	}
}

// interruptOrphans interrupts the tool that a crashed runner left, unless the runner
// has done so. The tool saves its state and ends its own child processes.
func interruptOrphans(workDir string) {
	processes, err := procfs.AllProcs()
	if err != nil {
		return
	}
	for _, process := range processes {
		stat, err := process.Stat()
		if err == nil && stat.PPID == os.Getpid() && stat.State != "Z" {
			runner.InterruptOrphan(workDir, process.PID)
		}
	}
}
