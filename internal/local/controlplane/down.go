package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/appthrust/capt/internal/host"
)

const (
	// stopGrace is how long a supervisor may take to stop all parts in order. Then
	// it is killed, and the parts with it.
	stopGrace = 8 * time.Second
	// killGrace is how long the kernel may take to end killed processes.
	killGrace = 10 * time.Second
)

// Down stops the control plane, blocks until all its processes have exited, and
// removes the directory. A control plane that does not exist is not an error. Down
// stops only processes that provably belong to the control plane.
func (c *Cluster) Down(ctx context.Context) error {
	held, err := c.lockOperation(ctx, false)
	if err != nil {
		return err
	}
	if held == nil {
		for _, supervisor := range supervisorsOf(c.Dir) {
			if err := supervisor.stop(ctx, stopGrace); err != nil {
				return err
			}
		}
		return nil
	}
	defer held.Release()
	exclusive, err := c.stopAll(ctx)
	if err != nil {
		return err
	}
	defer exclusive.Release()
	if err := os.RemoveAll(c.Dir); err != nil {
		return fmt.Errorf("removing the directory: %w", err)
	}
	return nil
}

// Stop stops all processes and keeps the directory: Up starts the same control plane
// again.
func (c *Cluster) Stop(ctx context.Context) error {
	held, err := c.lockOperation(ctx, false)
	if err != nil || held == nil {
		return err
	}
	defer held.Release()
	exclusive, err := c.stopAll(ctx)
	if err != nil {
		return err
	}
	exclusive.Release()
	return nil
}

// supervisor returns the last process that acquired the supervisor's lock.
func (c *Cluster) supervisor() Process {
	var process Process
	// An unreadable file is treated as missing.
	_ = readJSON(layout(c.Dir).supervisorLock(), &process)
	return process
}

// stopAll stops the supervisor and all processes it started or left behind, and
// returns the supervisor's lock. The lock proves that they have exited, and prevents
// another supervisor from starting.
func (c *Cluster) stopAll(ctx context.Context) (*host.FileLock, error) {
	began := time.Now()
	var terminated, killed Process
	for {
		held, err := host.TryLockFile(layout(c.Dir).supervisorLock())
		if err == nil {
			return held, c.stopParts(ctx)
		}
		if !errors.Is(err, host.ErrLocked) {
			return nil, err
		}
		supervisor := c.supervisor()
		switch {
		case !supervisor.alive():
			err = c.killParts()
		case terminated != supervisor:
			terminated = supervisor
			err = supervisor.signal(syscall.SIGTERM)
		case killed != supervisor && time.Since(began) > stopGrace:
			killed = supervisor
			err = supervisor.signal(syscall.SIGKILL)
		default:
			err = nil
		}
		if err != nil {
			return nil, err
		}
		if time.Since(began) > stopGrace+killGrace {
			return nil, fmt.Errorf("an unknown process holds %s: find it with fuser, stop it and try again", layout(c.Dir).supervisorLock())
		}
		if !sleep(ctx, pollInterval) {
			return nil, fmt.Errorf("waiting for the control plane of %s to stop: %w", c.Dir, context.Cause(ctx))
		}
	}
}

// parts returns the last observed processes in an order in which they can be stopped.
func (c *Cluster) parts() ([]PartStatus, error) {
	var observed observation
	err := readJSON(layout(c.Dir).status(), &observed)
	return append(observed.Workloads, observed.Parts...), err
}

// killParts kills the parts that still hold the lock of a supervisor that has exited.
func (c *Cluster) killParts() error {
	parts, err := c.parts()
	errs := []error{err}
	for _, part := range parts {
		errs = append(errs, part.signal(syscall.SIGKILL))
	}
	return errors.Join(errs...)
}

// stopParts stops programs that never held the lock, and a supervisor that has
// released it but has not exited yet.
func (c *Cluster) stopParts(ctx context.Context) error {
	parts, err := c.parts()
	errs := []error{err}
	if supervisor := c.supervisor(); supervisor.PID != os.Getpid() {
		errs = append(errs, supervisor.stop(ctx, killGrace))
	}
	for _, part := range parts {
		errs = append(errs, part.stop(ctx, childGrace))
	}
	return errors.Join(errs...)
}
