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
)

// call is one start of the binary.
type call struct {
	path string
	args []string
	dir  string
	env  []string
	// grace is how long the process may take to end after the interrupt.
	grace time.Duration
	// stdout and stderr are regular files, never pipes: a process that writes
	// to a pipe nobody reads any more is killed by SIGPIPE, so it would die in
	// the middle of an apply when the engine does. They also outlive the
	// engine, for whoever picks up its work.
	stdout, stderr *os.File
	stdin          io.Reader
	// poll is called while the process runs and once after its end, from a
	// single goroutine.
	poll func(ended bool)
}

// exit is how a process ended.
type exit struct {
	code                int
	interrupted, killed bool
}

const pollInterval = 50 * time.Millisecond

// run starts the binary and waits for its end. When ctx ends the process gets
// one interrupt, which the tool answers by finishing what it is at and saving
// its state; a second one would make it give up. Only after the grace period
// the whole process group is killed. The error is about starting and waiting;
// an exit code is no error.
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
			_ = syscall.Kill(pid, syscall.SIGINT)
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

// pending holds a cancellation back until there is a process to interrupt.
func pending(cancelled <-chan struct{}, pid int) <-chan struct{} {
	if pid == 0 {
		return nil
	}
	return cancelled
}

// startAndWait gives the tool a process group of its own, so that a signal to
// the engine's group does not reach it as well. There is no parent-death signal:
// the kernel sends one for each of the engine's threads, and a tool that is
// interrupted twice gives up without saving its state.
func (c call) startAndWait(started chan<- int, done chan<- error) {
	cmd := exec.Command(c.path, c.args...)
	cmd.Dir = c.dir
	cmd.Env = c.env
	cmd.Stdin = c.stdin
	cmd.Stdout = c.stdout
	cmd.Stderr = c.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		done <- fmt.Errorf("starting %s: %w", c.path, err)
		return
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
