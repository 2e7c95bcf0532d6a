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

// manager is a running manager.
type manager struct{ *testenv.Manager }

// startManager starts the manager for all namespaces, with flags for its executor.
func (h *harness) startManager(flags ...string) (*manager, error) {
	m := &manager{&testenv.Manager{Kubeconfig: h.env.Kubeconfig, WorkDir: h.work, Env: h.managerEnv, Args: append([]string{
		// By default one slot is left to other namespaces, of which there are none.
		fmt.Sprintf("--max-runs=%d", parallelism), fmt.Sprintf("--max-runs-per-namespace=%d", parallelism), "-v=0",
	}, flags...)}}
	return m, m.Start()
}

// stop stops the manager and waits until it has exited.
func (m *manager) stop() {
	if err := m.Stop(syscall.SIGTERM); err != nil {
		logf("stopping the manager: %v", err)
	}
}

// busy returns the number of objects of any kind that are being reconciled or queued.
func (m *manager) busy(ctx context.Context) (busy int, err error) {
	text, err := m.Metrics(ctx)
	if err != nil {
		return 0, err
	}
	samples, err := parseMetrics(text)
	for _, s := range samples {
		switch s.Metric[model.MetricNameLabel] {
		case "workqueue_depth", "controller_runtime_active_workers":
			busy += int(s.Value)
		}
	}
	return busy, err
}

// waitSettled waits until the queues have been empty for a short period.
func (m *manager) waitSettled(ctx context.Context) error {
	const calm = 500 * time.Millisecond
	var since time.Time
	for since.IsZero() || time.Since(since) < calm {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the manager to settle: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
		if m.PID() == 0 {
			return errors.New("the manager exited:\n" + host.LogTail(m.Log(), 4000))
		}
		switch busy, err := m.busy(ctx); {
		case err != nil || busy > 0:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		}
	}
	return nil
}
