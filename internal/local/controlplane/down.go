package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

const (
	// stopGrace is how long a supervisor may take to end all parts in order. When
	// it is killed, they are too.
	stopGrace = 8 * time.Second
	// killGrace is how long the kernel may take to end what was killed.
	killGrace = 10 * time.Second
)

// Down ends the control plane, blocks until all its processes are gone and
// removes the directory. A control plane that does not exist is no error. Only
// processes that are proven to be the control plane's are ended.
func (c *Cluster) Down(ctx context.Context) error {
	held, err := c.begin(ctx, false)
	if err != nil {
		return err
	}
	if held == nil {
		for _, supervisor := range supervisorsOf(c.Dir) {
			if err := supervisor.end(ctx, stopGrace); err != nil {
				return err
			}
		}
		return nil
	}
	defer held.release()
	alone, err := c.clear(ctx)
	if err != nil {
		return err
	}
	defer alone.release()
	if err := os.RemoveAll(c.Dir); err != nil {
		return fmt.Errorf("removing the directory: %w", err)
	}
	return nil
}

// Stop ends all processes and keeps the directory: Up brings the same control
// plane up again.
func (c *Cluster) Stop(ctx context.Context) error {
	held, err := c.begin(ctx, false)
	if err != nil || held == nil {
		return err
	}
	defer held.release()
	alone, err := c.clear(ctx)
	if err != nil {
		return err
	}
	alone.release()
	return nil
}

// supervisor returns who last took the supervisor's lock.
func (c *Cluster) supervisor() Process {
	var process Process
	// A file that cannot be read names nobody.
	_ = readJSON(layout(c.Dir).supervisorLock(), &process)
	return process
}

// clear ends the supervisor and everything it started or left behind, and
// returns the supervisor's lock: having it proves that they are gone, and no
// other supervisor begins meanwhile.
func (c *Cluster) clear(ctx context.Context) (*lock, error) {
	began := time.Now()
	var asked, killed Process
	for {
		held, err := tryLock(layout(c.Dir).supervisorLock())
		if err == nil {
			return held, c.endParts(ctx)
		}
		if !errors.Is(err, errHeld) {
			return nil, err
		}
		supervisor := c.supervisor()
		switch {
		case !supervisor.alive():
			err = c.killParts()
		case asked != supervisor:
			asked = supervisor
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
			return nil, fmt.Errorf("a process that is not known holds %s: find it with fuser, end it and try again", layout(c.Dir).supervisorLock())
		}
		if !pause(ctx, pollInterval) {
			return nil, fmt.Errorf("waiting for the control plane of %s to end: %w", c.Dir, context.Cause(ctx))
		}
	}
}

// parts returns what the supervisor last saw, in an order in which it can end.
func (c *Cluster) parts() ([]PartStatus, error) {
	var seen observation
	err := readJSON(layout(c.Dir).status(), &seen)
	return append(seen.Workloads, seen.Parts...), err
}

// killParts kills parts that keep the lock of a supervisor that is gone.
func (c *Cluster) killParts() error {
	parts, err := c.parts()
	errs := []error{err}
	for _, part := range parts {
		errs = append(errs, part.signal(syscall.SIGKILL))
	}
	return errors.Join(errs...)
}

// endParts ends programs that never held the lock, and a supervisor that has
// let go of it but has not ended yet.
func (c *Cluster) endParts(ctx context.Context) error {
	parts, err := c.parts()
	errs := []error{err}
	if supervisor := c.supervisor(); supervisor.PID != os.Getpid() {
		errs = append(errs, supervisor.end(ctx, killGrace))
	}
	for _, part := range parts {
		errs = append(errs, part.end(ctx, childGrace))
	}
	return errors.Join(errs...)
}
