package sandbox

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Bound is a process that does not outlive this one. It leads a process group.
type Bound struct {
	cmd   *exec.Cmd
	ended chan struct{}

	mu sync.Mutex
	// reaped is set when another process may have the ID.
	reaped bool
}

// StartBound starts the command in the sandbox, or in none if the rules are nil. The kernel
// kills it when this process ends, however that happens. What the command has started, and
// what is still in its process group, is killed when the command ends.
func (r *Rules) StartBound(cmd *exec.Cmd) (*Bound, error) {
	ruleset := -1
	if r != nil {
		if err := Check(); err != nil {
			return nil, err
		}
		var err error
		if ruleset, err = r.ruleset(); err != nil {
			return nil, fmt.Errorf("creating the sandbox: %w", err)
		}
		defer func() { _ = unix.Close(ruleset) }()
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	b := &Bound{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go b.run(ruleset, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return b, nil
}

// run starts the command and waits for its end on one thread: the kernel sends the signal
// when the thread that started the command ends.
func (b *Bound) run(ruleset int, started chan<- error) {
	runtime.LockOSThread()
	switch {
	case ruleset < 0:
		defer runtime.UnlockOSThread()
	case unix.Gettid() == unix.Getpid():
		// See startOnThread.
		defer runtime.UnlockOSThread()
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.run(ruleset, started)
		}()
		<-done
		return
	default:
		// The thread ends with this goroutine, because others must not be in the sandbox.
		if err := restrict(ruleset); err != nil {
			started <- fmt.Errorf("entering the sandbox: %w", err)
			return
		}
	}
	err := b.cmd.Start()
	started <- err
	if err == nil {
		b.wait()
	}
}

// wait waits for the end of the command. Until it is reaped, no other process or process
// group has its ID.
func (b *Bound) wait() {
	defer close(b.ended)
	pid := b.cmd.Process.Pid
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = unix.Kill(-pid, unix.SIGKILL)
	_ = b.cmd.Wait() // How it ended does not matter.
	b.reaped = true
}

// Pid returns the ID of the process.
func (b *Bound) Pid() int { return b.cmd.Process.Pid }

// Ended is closed when the process has ended.
func (b *Bound) Ended() <-chan struct{} { return b.ended }

// Signal sends a signal to the process group, unless the process has ended.
func (b *Bound) Signal(signal syscall.Signal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.reaped {
		_ = unix.Kill(-b.cmd.Process.Pid, signal)
	}
}
