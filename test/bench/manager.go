package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/prometheus/common/model"

	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/testenv"
)

// workspaceController is the controller whose reconciles are counted.
const workspaceController = "workspacetemplateapply"

// manager is a running manager.
type manager struct {
	*testenv.Manager
	started time.Time
}

// startManager starts the manager for all namespaces, with flags for its executor.
func (h *harness) startManager(flags ...string) (*manager, error) {
	m := &manager{
		Manager: &testenv.Manager{Kubeconfig: h.env.Kubeconfig, WorkDir: h.work, Env: h.managerEnv, Args: append([]string{
			// By default one slot is left to other namespaces, of which there are none.
			fmt.Sprintf("--max-runs=%d", parallelism), fmt.Sprintf("--max-runs-per-namespace=%d", parallelism), "-v=0",
		}, flags...)},
		started: time.Now(),
	}
	return m, m.Start()
}

// stop stops the manager and waits until it has exited.
func (m *manager) stop() {
	if err := m.Stop(syscall.SIGTERM); err != nil {
		logf("stopping the manager: %v", err)
	}
}

// reconciles returns the number of reconciles of workspaces since the manager started.
func (m *manager) reconciles(ctx context.Context) (int, error) {
	n, _, err := m.activity(ctx)
	return n, err
}

// activity returns the number of reconciles of workspaces so far, and the number of
// objects of any kind that are being reconciled or queued.
func (m *manager) activity(ctx context.Context) (reconciles, busy int, err error) {
	text, err := m.Metrics(ctx)
	if err != nil {
		return 0, 0, err
	}
	samples, err := parseMetrics(text)
	for _, s := range samples {
		switch s.Metric[model.MetricNameLabel] {
		case "controller_runtime_reconcile_total":
			if s.Metric["controller"] == workspaceController {
				reconciles += int(s.Value)
			}
		case "workqueue_depth", "controller_runtime_active_workers":
			busy += int(s.Value)
		}
	}
	return reconciles, busy, err
}

// waitSettled waits until at least the given number of reconciles of workspaces are
// done and the queue has been empty for a short period. It returns the start of that
// period.
func (m *manager) waitSettled(ctx context.Context, reconciles int) (time.Time, error) {
	const calm = 500 * time.Millisecond
	var since time.Time
	for {
		select {
		case <-ctx.Done():
			return since, fmt.Errorf("waiting for the manager to settle: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
		if m.PID() == 0 {
			return since, errors.New("the manager exited:\n" + host.LogTail(m.Log(), 4000))
		}
		seen, busy, err := m.activity(ctx)
		switch {
		case err != nil || busy > 0 || seen < reconciles:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= calm:
			return since, nil
		}
	}
}
