package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/appthrust/capt/internal/terraform/record"
)

// Running returns the processes of the tool that work in the directory. They
// are found by their working directory, so that none is missed because an
// engine died before it could write down its id.
func (t *Tool) Running(dir string) []int {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		return nil
	}
	var pids []int
	for _, link := range links {
		// Processes of others and those that just ended cannot be read.
		cwd, err := os.Readlink(link)
		if err != nil || cwd != dir && !strings.HasPrefix(cwd, dir+string(filepath.Separator)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err == nil && t.isProcess(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// isProcess tells the tool from what it started in the same directory.
func (t *Tool) isProcess(pid int) bool {
	// The kernel keeps that much of a command's name.
	const longest = 15
	name := filepath.Base(t.Path)
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && strings.TrimSpace(string(comm)) == name[:min(len(name), longest)]
}

// AwaitEnd blocks until no process of an earlier engine works in the directory.
// Such a process is interrupted, and saves its state; it is killed when it has
// not ended after the grace period. Whoever calls this holds the lock of the
// state, and so knows that the earlier engine is gone.
func (t *Tool) AwaitEnd(ctx context.Context, dir string, grace time.Duration) error {
	deadline := time.After(grace)
	for {
		pids := t.Running(dir)
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			if err := interruptOnce(dir, pid); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for process %d of an earlier run to end: %w", pids[0], context.Cause(ctx))
		case <-deadline:
			for _, pid := range pids {
				_ = syscall.Kill(-pid, syscall.SIGKILL)
			}
		case <-time.After(pollInterval):
		}
	}
}

// interruptOnce interrupts a process unless somebody did before: the tool takes
// a second interrupt as an order to give up without saving its state. That it
// was interrupted is written down first, for the engine may die at any moment.
func interruptOnce(dir string, pid int) error {
	started, err := record.ProcessStartTime(pid)
	if err != nil {
		return nil //nolint:nilerr // It has just ended.
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
