package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/appthrust/capt/internal/local/controlplane"
	"github.com/appthrust/capt/internal/local/environment"
)

const (
	// targetTimeout is how long a fault waits for a part that is starting.
	targetTimeout = 10 * time.Second
	// leasePause is how long a leader is suspended at least: longer than its lease.
	leasePause = 4 * time.Second
	// slowStop and slowRun are how long a slow process is suspended and then runs.
	slowStop = 150 * time.Millisecond
	slowRun  = 50 * time.Millisecond
)

// errNoTarget means that the process of a fault is not running.
var errNoTarget = errors.New("no process to disrupt")

// parts are the parts of the environment that faults disrupt.
var parts = map[fault]string{
	killManager: environment.Manager, stopManager: environment.Manager, killSupervisor: partSupervisor, termSupervisor: partSupervisor,
	killAPIServer: controlplane.APIServer, killEtcd: controlplane.Etcd, killClusterAPI: environment.ClusterAPI,
	slowAPIServer: controlplane.APIServer, slowEtcd: controlplane.Etcd,
	stopKubelet: partKubelet, stopContainerd: partContainerd, loseNode: partKubelet,
}

// injectParts disrupts parts as scheduled, and blocks until all faults are injected.
func (t *trial) injectParts(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	start := time.Now()
	for _, m := range t.schedule.Injections {
		if !sleep(ctx, time.Until(start.Add(m.At))) {
			return
		}
		group.Go(func() { t.countFault(m.Fault, t.injectPart(ctx, m)) })
	}
}

func (t *trial) injectPart(ctx context.Context, m injection) error {
	defer t.windows.begin(m.Fault)()
	switch m.Fault {
	case useCPU:
		return burn(ctx, 2*runtime.NumCPU(), 2*m.For)
	case fillDisk:
		return fill(ctx, t.disk(), m.For)
	case expireProvider:
		defer t.journal.gate.Expire()()
		sleep(ctx, m.For)
		return nil
	case expireBackend:
		defer t.store.expire()()
		sleep(ctx, m.For)
		return nil
	case loseResponses, repeatRequests, failRequests:
		for _, p := range t.proxies {
			defer p.begin(m.Fault)()
		}
		sleep(ctx, m.For)
		return nil
	case partitionManager:
		defer t.proxies[0].begin(m.Fault)()
		sleep(ctx, leasePause+m.For)
		return nil
	case holdPlans:
		return t.holdPlans(ctx, m)
	default:
		return t.injectProcess(ctx, m)
	}
}

// windows records when faults of parts were active.
type windows struct {
	mu   sync.Mutex
	list []*window
}

// window is the time of one fault. Its end is zero while the fault is active.
type window struct {
	fault      fault
	start, end time.Time
}

// begin records that a fault is active until the returned function is called.
func (w *windows) begin(f fault) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := &window{fault: f, start: time.Now()}
	w.list = append(w.list, one)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		one.end = time.Now()
	}
}

// resolution is that of the times of runs.
const resolution = time.Second

// during reports whether one of the faults was active at some time of a period.
func (w *windows) during(from, to time.Time, faults ...fault) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.list, func(one *window) bool {
		return slices.Contains(faults, one.fault) && one.start.Before(to.Add(resolution)) && (one.end.IsZero() || one.end.After(from.Add(-resolution)))
	})
}

// injectProcess disrupts the process of a part.
func (t *trial) injectProcess(ctx context.Context, m injection) error {
	t.parts.Lock()
	defer t.parts.Unlock()
	victim, err := t.victim(ctx, m.Fault)
	if err != nil {
		return err
	}
	switch m.Fault {
	case termManager:
		return victim.signal(syscall.SIGTERM)
	case killAPIServer, killEtcd:
		return t.kill(victim)
	case killSupervisor, termSupervisor:
		signal := syscall.SIGKILL
		if m.Fault == termSupervisor {
			signal = syscall.SIGTERM
		}
		if err := victim.signal(signal); err != nil {
			return err
		}
		sleep(ctx, m.For/2)
		return t.up(ctx)
	case stopManager, stopKubelet, stopContainerd:
		return suspend(ctx, victim, m.For)
	case stopLeader:
		return suspend(ctx, victim, leasePause+m.For)
	case slowAPIServer, slowEtcd:
		return slow(ctx, victim, 2*m.For)
	case loseNode:
		return t.loseNode(ctx, victim, m.For)
	default:
		return victim.signal(syscall.SIGKILL)
	}
}

// victim returns the process of the part that a fault disrupts. The part may be
// starting.
func (t *trial) victim(ctx context.Context, f fault) (target, error) {
	var found target
	err := poll(ctx, targetTimeout, func(ctx context.Context) error {
		var err error
		if f == killLeader || f == stopLeader || f == termManager {
			found, err = t.leader(ctx)
		} else {
			found, err = t.process(ctx, parts[f])
		}
		return err
	})
	return found, err
}

// leader returns the active manager.
func (w *harness) leader(ctx context.Context) (target, error) {
	if leads, err := w.second.leads(ctx); err == nil && leads {
		return w.second.target()
	}
	return w.process(ctx, environment.Manager)
}

// suspend stops a process for a while.
func suspend(ctx context.Context, victim target, d time.Duration) error {
	if err := victim.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	sleep(ctx, d)
	// It may have been killed meanwhile.
	_ = victim.signal(syscall.SIGCONT)
	return nil
}

// slow lets a process run for only a part of the time.
func slow(ctx context.Context, victim target, d time.Duration) error {
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; sleep(ctx, slowRun) {
		if err := suspend(ctx, victim, slowStop); err != nil {
			return err
		}
	}
	return nil
}

// burn runs busy loops for a while.
func burn(ctx context.Context, loops int, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	stop, err := startLoops(ctx, loops)
	if err != nil {
		return err
	}
	<-ctx.Done()
	stop()
	return nil
}

// startLoops starts busy loops that run until ctx ends. stop waits for their end.
func startLoops(ctx context.Context, loops int) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var started []*exec.Cmd
	stop = func() {
		cancel()
		for _, cmd := range started {
			_ = cmd.Wait()
		}
	}
	for range loops {
		cmd := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			stop()
			return nil, fmt.Errorf("starting a busy loop: %w", err)
		}
		started = append(started, cmd)
	}
	return stop, nil
}

// fill fills a file system for a while.
func fill(ctx context.Context, dir string, d time.Duration) error {
	if dir == "" {
		return errNoTarget
	}
	file, err := os.CreateTemp(dir, "full-")
	if err != nil {
		return fmt.Errorf("filling the disk: %w", err)
	}
	defer os.Remove(file.Name())
	defer file.Close()
	for chunk := make([]byte, 1<<20); err == nil; {
		_, err = file.Write(chunk)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("filling the disk: %w", err)
	}
	sleep(ctx, d)
	return nil
}

// loseNode kills all containers of runs while the kubelet is suspended, as if the
// machine had crashed and started again.
func (t *trial) loseNode(ctx context.Context, kubelet target, d time.Duration) error {
	if err := kubelet.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	defer func() { _ = kubelet.signal(syscall.SIGCONT) }()
	list := t.processes()
	for _, init := range list.inits {
		// Its processes may have exited.
		_ = t.killContainer(ctx, list.of(init.workspace), true)
	}
	sleep(ctx, d)
	return nil
}
