package main

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/appthrust/capt/internal/testenv"
)

// restartDelay is the pause between the end of a manager and its next start.
const restartDelay = 500 * time.Millisecond

// manager is a manager that is restarted whenever it exits.
type manager struct {
	*testenv.Manager
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// newManager starts a manager. Its log is in dir.
func newManager(dir, kubeconfig string, args []string) (*manager, error) {
	args = slices.Concat(args, leaderElection, []string{"-v=2"})
	ctx, cancel := context.WithCancel(context.Background())
	m := &manager{Manager: &testenv.Manager{Kubeconfig: kubeconfig, WorkDir: dir, Args: args}, cancel: cancel}
	if err := m.Start(); err != nil {
		cancel()
		return nil, err
	}
	m.done.Go(func() { m.supervise(ctx) })
	return m, nil
}

func (m *manager) supervise(ctx context.Context) {
	for sleep(ctx, restartDelay) {
		if m.PID() == 0 {
			// The next attempt follows.
			_ = m.Start()
		}
	}
}

// stop kills the manager.
func (m *manager) stop() error {
	m.cancel()
	m.done.Wait()
	return m.Stop(syscall.SIGKILL)
}

func (m *manager) target() (target, error) {
	pid := m.PID()
	if pid == 0 {
		return target{}, errNoTarget
	}
	return newTarget(pid)
}

// ready returns an error unless the manager is running.
func (m *manager) ready(ctx context.Context) error {
	_, err := m.Metrics(ctx)
	return err
}

// leads reports whether the manager is the leader.
func (m *manager) leads(ctx context.Context) (bool, error) {
	metrics, err := m.Metrics(ctx)
	return bytes.Contains(metrics, []byte(`leader_election_master_status{name="capt-manager-leader"} 1`)), err
}
