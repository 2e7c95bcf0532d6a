package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/appthrust/capt/internal/host/sandbox"
)

// call is an execution of the binary.
type call struct {
	path string
	args []string
	dir  string
	env  []string
	// grace is the time that the process has to end after the interrupt.
	grace time.Duration
	// stdout and stderr are regular files, not pipes. SIGPIPE kills a process that
	// writes to a pipe without a reader, so the tool would die during an apply if
	// the engine did. The files also remain for the engine that takes over.
	stdout, stderr *os.File
	stdin          io.Reader
	// interrupted reports whether the process says that it was interrupted. It may be
	// nil.
	interrupted func() bool
	// sandbox limits what the process can do, or is nil.
	sandbox *sandbox.Rules
	// files are open in the process, from file descriptor 3 on.
	files []*os.File
	// onStart is called with the ID of the process when it has started. It may be nil.
	onStart func(pid int)
	// poll is called periodically while the process runs and once after its end,
	// always from the same goroutine.
	poll func(ended bool)
}

// exit describes how a process ended.
type exit struct {
	code                int
	interrupted, killed bool
}

const pollInterval = 50 * time.Millisecond

// run starts the binary and waits for its end. When ctx is cancelled, the process
// is interrupted once: the tool completes the operations in progress and saves its
// state. A second interrupt would make it abort. After the grace period the whole
// process group is killed. An exit code is not an error.
func (c call) run(ctx context.Context) (exit, error) {
	if ctx.Err() != nil {
		return exit{interrupted: true, code: -1}, nil
	}
	started := make(chan int, 1)
	done := make(chan error, 1)
	go c.startAndWait(started, done)

	ended := exit{}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	cancelled := ctx.Done()
	var pid int
	var deadline <-chan time.Time
	for {
		select {
		case pid = <-started:
			started = nil
		case <-ticker.C:
			c.poll(false)
		case <-pending(cancelled, pid):
			cancelled = nil
			ended.interrupted = true
			c.poll(false)
			// After a second interrupt the tool would abort without saving its state.
			if c.interrupted == nil || !c.interrupted() {
				_ = syscall.Kill(pid, syscall.SIGINT)
			}
			deadline = time.After(c.grace)
		case <-deadline:
			deadline = nil
			ended.killed = true
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		case err := <-done:
			c.poll(true)
			code, err := exitCode(err)
			ended.code = code
			return ended, err
		}
	}
}

// pending returns cancelled, or nil while there is no process to interrupt.
func pending(cancelled <-chan struct{}, pid int) <-chan struct{} {
	if pid == 0 {
		return nil
	}
	return cancelled
}

// startAndWait starts the tool in its own session, so that a signal to the engine's
// group does not reach it, and the kernel does not hang it up if it is suspended when
// the engine dies. It sets no parent-death signal: the kernel sends one for each of the
// engine's threads, and after a second interrupt the tool aborts without saving its state.
func (c call) startAndWait(started chan<- int, done chan<- error) {
	cmd := exec.Command(c.path, c.args...)
	cmd.Dir = c.dir
	cmd.Env = c.env
	cmd.Stdin = c.stdin
	cmd.Stdout = c.stdout
	cmd.Stderr = c.stderr
	cmd.ExtraFiles = c.files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	start := cmd.Start
	if c.sandbox != nil {
		start = func() error { return c.sandbox.Start(cmd) }
	}
	if err := start(); err != nil {
		done <- fmt.Errorf("starting %s: %w", c.path, err)
		return
	}
	if c.onStart != nil {
		c.onStart(cmd.Process.Pid)
	}
	started <- cmd.Process.Pid
	done <- cmd.Wait()
}

func exitCode(err error) (int, error) {
	if err == nil {
		return 0, nil
	}
	if exited, ok := errors.AsType[*exec.ExitError](err); ok {
		return exited.ExitCode(), nil
	}
	return -1, err
}
