package main

import (
	"context"
	"fmt"
	"time"

	"github.com/appthrust/capt/internal/testenv"
)

// restartReport is the result of a restart with many applied workspaces.
type restartReport struct {
	Workspaces    int     `json:"workspaces"`
	RunsStarted   int     `json:"runsStarted"`
	SettleSeconds float64 `json:"settleSeconds"`
	// MemoryMiB is the idle memory, AnonymousMiB the same without the pages of the
	// program's file, PeakMiB the maximum since the restart, and WorkedMiB the memory
	// of the previous manager after all runs.
	MemoryMiB    float64 `json:"memoryMiB"`
	AnonymousMiB float64 `json:"anonymousMiB"`
	PeakMiB      float64 `json:"peakMiB"`
	WorkedMiB    float64 `json:"workedMiB"`
	// ApplySeconds is how long the runs of all workspaces took.
	ApplySeconds float64 `json:"applySeconds"`
}

// noopReport is the cost of reconciles without changes.
type noopReport struct {
	Reconciles int `json:"reconciles"`
	Processes  int `json:"processes"`
}

// restReport is the activity of the idle manager.
type restReport struct {
	Writes     int            `json:"writes"`
	Seconds    float64        `json:"seconds"`
	ByResource map[string]int `json:"byResource,omitempty"`
	CPUSeconds float64        `json:"cpuSeconds"`
}

// idleTime is how long the idle manager is observed.
const idleTime = 30 * time.Second

// measureRestart applies many workspaces and restarts the manager. It sets the report only
// when all is measured.
func measureRestart(ctx context.Context, workspaces int, r *report) error {
	logf("restart: starting the API server")
	env, err := testenv.Start()
	if err != nil {
		return err
	}
	defer stopQuietly(env)
	h, err := newHarness(env)
	if err != nil {
		return err
	}
	restart := &restartReport{Workspaces: workspaces}
	namespace, err := h.applyAll(ctx, workspaces, restart)
	if err != nil {
		return err
	}
	before, err := h.countRuns(ctx, namespace)
	if err != nil {
		return err
	}

	logf("restart: restarting the manager")
	m, err := h.startManager()
	if err != nil {
		return err
	}
	defer m.stop()
	settled, err := m.waitSettled(ctx, workspaces)
	if err != nil {
		return err
	}
	restart.SettleSeconds = settled.Sub(m.started).Seconds()
	logf("restart: settled after %.1fs", restart.SettleSeconds)
	noop, err := h.measureNoop(ctx, m, namespace, workspaces)
	if err != nil {
		return err
	}
	rest, err := h.measureRest(ctx, m)
	if err != nil {
		return err
	}
	after, err := h.countRuns(ctx, namespace)
	if err != nil {
		return err
	}
	restart.RunsStarted = after - before
	used, err := m.memory()
	if err != nil {
		return err
	}
	restart.MemoryMiB, restart.AnonymousMiB, restart.PeakMiB = used.now, used.anonymous, used.peak
	r.Restart, r.Noop, r.Rest = restart, noop, rest
	return nil
}

// applyAll applies the workspaces and stops the manager.
func (h *harness) applyAll(ctx context.Context, workspaces int, r *restartReport) (string, error) {
	m, err := h.startManager()
	if err != nil {
		return "", err
	}
	defer m.stop()
	namespace, err := h.namespace(ctx)
	if err != nil {
		return "", err
	}
	if err := h.createTemplate(ctx, namespace, small(0), nil, nil); err != nil {
		return "", err
	}
	logf("restart: applying %d workspaces", workspaces)
	if r.ApplySeconds, err = h.apply(ctx, namespace, workspaces, max(workspaces/10, 1)); err != nil {
		return "", err
	}
	if _, err := m.waitSettled(ctx, workspaces); err != nil {
		return "", err
	}
	used, err := m.memory()
	if err != nil {
		return "", err
	}
	r.WorkedMiB = used.now
	logf("restart: applied in %.0fs; the manager has %.0f MiB", r.ApplySeconds, r.WorkedMiB)
	return namespace, nil
}

// measureNoop triggers reconciles without changes, and counts the processes that the
// manager has started.
func (h *harness) measureNoop(ctx context.Context, m *manager, namespace string, workspaces int) (*noopReport, error) {
	touched := min(workspaces, 40)
	logf("restart: touching %d workspaces", touched)
	before, err := m.reconciles(ctx)
	if err != nil {
		return nil, err
	}
	for i := range touched {
		if err := h.touch(ctx, namespace, workspaceName(i)); err != nil {
			return nil, err
		}
	}
	if _, err := m.waitSettled(ctx, before+touched); err != nil {
		return nil, err
	}
	r := &noopReport{}
	if r.Reconciles, err = m.reconciles(ctx); err != nil {
		return nil, err
	}
	if r.Processes, err = m.children(); err != nil {
		return nil, err
	}
	return r, nil
}

// measureRest counts the API writes while the manager is idle.
func (h *harness) measureRest(ctx context.Context, m *manager) (*restReport, error) {
	logf("restart: observing the idle manager for %s", idleTime)
	before, err := h.requests(ctx)
	if err != nil {
		return nil, err
	}
	cpu, err := m.cpu()
	if err != nil {
		return nil, err
	}
	started := time.Now()
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("observing the idle manager: %w", ctx.Err())
	case <-time.After(idleTime):
	}
	r := &restReport{Seconds: time.Since(started).Seconds(), ByResource: map[string]int{}}
	after, err := h.requests(ctx)
	if err != nil {
		return nil, err
	}
	for what, n := range difference(before, after) {
		if isWrite(what) {
			r.ByResource[what] = n
			r.Writes += n
		}
	}
	used, err := m.cpu()
	if err != nil {
		return nil, err
	}
	r.CPUSeconds = used - cpu
	return r, nil
}
