package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/procfs"
)

const (
	// settleTimeout is how long workspaces may take to settle after the last fault.
	settleTimeout = 3 * time.Minute
	// maxExtension bounds the time that a wait is extended on a busy machine.
	maxExtension = 2 * settleTimeout
	// pollInterval is the interval between requests to the API server, and
	// attemptTimeout the time that one attempt may take.
	pollInterval   = 200 * time.Millisecond
	attemptTimeout = 20 * time.Second
	// busyIdle is the share of idle CPU time below which a machine counts as busy.
	busyIdle = 0.05
)

// busyMeter measures for how long the machine was busy: all its CPUs were in use.
type busyMeter struct{ total atomic.Int64 }

// machine is the meter of this machine.
var machine = &busyMeter{}

func (b *busyMeter) busy() time.Duration { return time.Duration(b.total.Load()) }

// watch measures until ctx ends.
func (b *busyMeter) watch(ctx context.Context) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return
	}
	read := func() procfs.CPUStat {
		stat, err := fs.Stat()
		if err != nil {
			return procfs.CPUStat{}
		}
		return stat.CPUTotal
	}
	previous, at := read(), time.Now()
	for sleep(ctx, time.Second) {
		current, now := read(), time.Now()
		if isBusy(previous, current) {
			b.total.Add(int64(now.Sub(at)))
		}
		previous, at = current, now
	}
}

// isBusy reports whether the CPUs were idle for less than busyIdle of the time between
// two measurements.
func isBusy(before, after procfs.CPUStat) bool {
	sum := func(s procfs.CPUStat) float64 {
		return s.User + s.Nice + s.System + s.Idle + s.Iowait + s.IRQ + s.SoftIRQ + s.Steal
	}
	total := sum(after) - sum(before)
	idle := after.Idle + after.Iowait - before.Idle - before.Iowait
	return total > 0 && idle/total < busyIdle
}

// deadline is the end of a wait. The time in which the machine was busy extends it.
type deadline struct {
	limit, maxExtension time.Duration
	now                 func() time.Time
	busy                func() time.Duration
	started             time.Time
	busyBefore          time.Duration
}

// newDeadline returns a deadline that is extended by at most maxExtension.
func newDeadline(limit, maxExtension time.Duration, now func() time.Time, busy func() time.Duration) *deadline {
	return &deadline{limit: limit, maxExtension: maxExtension, now: now, busy: busy, started: now(), busyBefore: busy()}
}

func (d *deadline) extension() time.Duration { return min(d.busy()-d.busyBefore, d.maxExtension) }

func (d *deadline) passed() bool { return d.now().Sub(d.started) > d.limit+d.extension() }

// String returns the limit and its extension.
func (d *deadline) String() string {
	if d.maxExtension == 0 {
		return d.limit.String()
	}
	return fmt.Sprintf("%s and the %s in which the machine was busy", d.limit, d.extension().Round(time.Second))
}

// await calls try until it succeeds, or settleTimeout and the time in which the machine
// was busy have passed.
func await(ctx context.Context, try func(context.Context) error) error {
	return pollUntil(ctx, newDeadline(settleTimeout, maxExtension, time.Now, machine.busy), try)
}

// poll calls try until it succeeds or the timeout has passed.
func poll(ctx context.Context, timeout time.Duration, try func(context.Context) error) error {
	return pollUntil(ctx, newDeadline(timeout, 0, time.Now, machine.busy), try)
}

// errTimeout means that a wait has reached its deadline.
var errTimeout = errors.New("timed out")

func pollUntil(ctx context.Context, end *deadline, try func(context.Context) error) error {
	for {
		// A suspended API server does not respond.
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		err := try(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if end.passed() {
			return fmt.Errorf("%w after %s: %w", errTimeout, end, err)
		}
		if !sleep(ctx, pollInterval) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// sleep waits, and reports false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
