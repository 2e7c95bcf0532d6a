package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
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
	if r != nil {
		if err := Check(); err != nil {
			return nil, err
		}
		fd, err := r.ruleset()
		if err != nil {
			return nil, fmt.Errorf("creating the sandbox: %w", err)
		}
		ruleset := os.NewFile(uintptr(fd), "ruleset")
		defer ruleset.Close()
		enterFirst(cmd, ruleset)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	b := &Bound{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go b.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return b, nil
}

// run starts the command and waits for its end on one thread: the kernel sends the signal
// when the thread that started the command ends.
//
// That thread is not in the sandbox. As long as one of this process is, the command could
// read and change the memory of this process through it.
func (b *Bound) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := b.cmd.Start()
	started <- err
	if err == nil {
		b.wait()
	}
}

// enterName is the name by which this program starts itself in order to enter a sandbox.
const enterName = "capt-sandbox"

// enterFirst makes the command one that enters the sandbox before it becomes the given one.
func enterFirst(cmd *exec.Cmd, ruleset *os.File) {
	cmd.ExtraFiles = append(slices.Clip(cmd.ExtraFiles), ruleset)
	fd := strconv.Itoa(2 + len(cmd.ExtraFiles))
	cmd.Args = append([]string{enterName, fd, cmd.Path}, cmd.Args...)
	cmd.Path = "/proc/self/exe"
}

// This must happen before anything else that the program does.
func init() {
	if len(os.Args) > 3 && os.Args[0] == enterName {
		err := enter(os.Args[1], os.Args[2], os.Args[3:])
		_, _ = fmt.Fprintln(os.Stderr, "entering the sandbox:", err)
		os.Exit(1)
	}
}

// enter enters the sandbox with the rules of a file descriptor, and executes a program.
func enter(descriptor, program string, args []string) error {
	ruleset, err := strconv.Atoi(descriptor)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := restrict(ruleset); err != nil {
		return err
	}
	unix.CloseOnExec(ruleset)
	return syscall.Exec(program, args, os.Environ())
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
	_ = b.cmd.Wait() // State says how it ended.
	b.reaped = true
}

// Pid returns the ID of the process.
func (b *Bound) Pid() int { return b.cmd.Process.Pid }

// Ended is closed when the process has ended.
func (b *Bound) Ended() <-chan struct{} { return b.ended }

// State says how the process has ended, for example by which signal.
func (b *Bound) State() string {
	<-b.ended
	return b.cmd.ProcessState.String()
}

// Signal sends a signal to the process group, unless the process has ended. A process that has
// left its group gets it too, SIGKILL always.
func (b *Bound) Signal(signal syscall.Signal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reaped {
		return
	}
	pid := b.cmd.Process.Pid
	if err := unix.Kill(-pid, signal); err != nil || signal == unix.SIGKILL {
		_ = unix.Kill(pid, signal)
	}
}
