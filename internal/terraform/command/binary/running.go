package binary

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/appthrust/capt/internal/host"
)

// Running returns the IDs of the tool's processes in the directory. It finds them
// by their working directory and not by a recorded ID, because an engine may die
// before it can record one.
func (t *Tool) Running(dir string) []int {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	processes, err := procfs.AllProcs()
	if err != nil {
		return nil
	}
	var pids []int
	for _, process := range processes {
		// Processes of other users and those that have just ended are unreadable.
		cwd, err := process.Cwd()
		if err != nil || !isWithin(cwd, dir) {
			continue
		}
		if t.isProcess(process) {
			pids = append(pids, process.PID)
		}
	}
	return pids
}

// isProcess reports whether a process is the tool itself and not one that it
// started.
func (t *Tool) isProcess(process procfs.Proc) bool {
	// The kernel truncates names to this length.
	const longest = 15
	comm, err := process.Comm()
	if err != nil || strings.HasPrefix(comm, "terraform-provi") {
		return false
	}
	// The earlier engine may have had another program, such as tofu-1.10.6.
	name := filepath.Base(t.Path)
	return comm == name[:min(len(name), longest)] || slices.ContainsFunc([]string{"tofu", "terraform"}, func(product string) bool {
		return comm == product || strings.HasPrefix(comm, product+"-")
	})
}

// Patience is how long AwaitEnd waits for a process of an earlier engine.
type Patience struct {
	// Limit is the age at which the process is interrupted. It then saves its state.
	Limit time.Duration
	// Grace is how long after that it is killed.
	Grace time.Duration
}

// AwaitEnd blocks until no process of an earlier engine runs in the directory. It
// interrupts such a process at the limit, and kills it after the grace period. The
// caller must hold the lock of the state, which proves that the earlier engine has
// ended. Others reports whether a process exists that may still become the tool: an
// engine can be killed between the fork and the exec of its child.
func (t *Tool) AwaitEnd(ctx context.Context, dir string, others func() (bool, error), patience Patience) error {
	var deadline <-chan time.Time
	for {
		// Others first: what it misses has become the tool by now.
		pending := false
		if others != nil {
			var err error
			if pending, err = others(); err != nil {
				return err
			}
		}
		pids := t.Running(dir)
		if len(pids) == 0 && !pending {
			return nil
		}
		if deadline == nil && len(pids) > 0 && age(pids) >= patience.Limit {
			deadline = time.After(patience.Grace)
		}
		if deadline != nil {
			if err := t.Interrupt(dir); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the processes of an earlier run to end: %w", context.Cause(ctx))
		case <-deadline:
			for _, pid := range pids {
				_ = syscall.Kill(-pid, syscall.SIGKILL)
			}
		case <-time.After(pollInterval):
		}
	}
}

// InterruptReceived is in the message of a tool that was interrupted.
const InterruptReceived = "Interrupt received"

const pollInterval = 50 * time.Millisecond

// reportedInterrupt reports whether the output of a command in the directory says
// that it was interrupted, by the engine or by another process.
func reportedInterrupt(dir string) bool {
	streams, err := filepath.Glob(filepath.Join(dir, "run", "*.jsonl"))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(streams, func(path string) bool {
		content, err := os.ReadFile(path)
		return err == nil && bytes.Contains(content, []byte(InterruptReceived))
	})
}

// Interrupt interrupts the processes of the tool in the directory that were not interrupted
// before.
func (t *Tool) Interrupt(dir string) error {
	var errs []error
	for _, pid := range t.Running(dir) {
		errs = append(errs, interruptOnce(dir, pid))
	}
	return errors.Join(errs...)
}

// age returns how long the oldest of the processes has existed.
func age(pids []int) time.Duration {
	var oldest time.Duration
	for _, pid := range pids {
		process, err := procfs.NewProc(pid)
		if err != nil {
			continue // It has just ended.
		}
		stat, err := process.Stat()
		if err != nil {
			continue
		}
		if started, err := stat.StartTime(); err == nil {
			oldest = max(oldest, time.Since(time.Unix(0, int64(started*float64(time.Second)))))
		}
	}
	return oldest
}

// isWithin reports whether a path is a directory or is below it.
func isWithin(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+string(filepath.Separator))
}

// interruptOnce interrupts a process unless it was interrupted before: after a
// second interrupt the tool aborts without saving its state. It records the
// interrupt first, because the engine may die at any moment.
func interruptOnce(dir string, pid int) error {
	started, err := host.ProcessStartTime(pid)
	if err != nil {
		return nil //nolint:nilerr // The process has just ended.
	}
	if reportedInterrupt(dir) {
		return nil
	}
	marker := filepath.Join(dir, "run", fmt.Sprintf("interrupted-%d-%d", pid, started))
	if err := os.MkdirAll(filepath.Dir(marker), 0o700); err != nil {
		return fmt.Errorf("interrupting process %d of an earlier run: %w", pid, err)
	}
	file, err := os.OpenFile(marker, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("interrupting process %d of an earlier run: %w", pid, err)
	}
	_ = syscall.Kill(pid, syscall.SIGINT)
	return file.Close()
}
