package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
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
	// diagnostics is the address of its metrics.
	diagnostics string
	cancel      context.CancelFunc
	done        sync.WaitGroup
}

// newManager starts a manager. Its log is in dir. With more than one manager, all of
// them elect a leader.
func newManager(dir, kubeconfig string, managers int, args []string) (*manager, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("finding a free port: %w", err)
	}
	diagnostics := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return nil, fmt.Errorf("finding a free port: %w", err)
	}
	args = slices.Concat(args, []string{"--diagnostics-address=" + diagnostics, "--insecure-diagnostics=true", "-v=2"})
	if managers > 1 {
		args = append(args, leaderElection...)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &manager{Manager: &testenv.Manager{Kubeconfig: kubeconfig, WorkDir: dir, Args: args}, diagnostics: diagnostics, cancel: cancel}
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
	_, err := m.metrics(ctx)
	return err
}

// leads reports whether the manager is the leader.
func (m *manager) leads(ctx context.Context) (bool, error) {
	metrics, err := m.metrics(ctx)
	return strings.Contains(metrics, `leader_election_master_status{name="capt-manager-leader"} 1`), err
}

func (m *manager) metrics(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.diagnostics+"/metrics", http.NoBody)
	if err != nil {
		return "", fmt.Errorf("reading metrics: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("reading metrics: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return "", errors.Join(fmt.Errorf("reading metrics: %s", response.Status), err)
	}
	return string(text), nil
}
