package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/local/controlplane"
	"github.com/appthrust/capt/internal/local/environment"
	"github.com/appthrust/capt/internal/terraform/record"
)

// targetTimeout is how long a fault waits for a part that is starting.
const targetTimeout = 10 * time.Second

// errNoTarget means that the process of a fault is not running.
var errNoTarget = errors.New("no process to disrupt")

// parts are the parts of the environment that faults disrupt.
var parts = map[fault]string{
	killManager: environment.Manager, stopManager: environment.Manager,
	killAPIServer: controlplane.APIServer, killEtcd: controlplane.Etcd, killClusterAPI: environment.ClusterAPI,
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
		group.Go(func() {
			if m.Fault == killSupervisor {
				t.countFault(m, t.killSupervisor(ctx, m))
			} else {
				t.countFault(m, t.injectPart(ctx, m))
			}
		})
	}
}

// injectRuns disrupts the runs of the workspace one after the other until the
// scenario ends.
func (a *actor) injectRuns(ctx context.Context) {
	for _, m := range a.scenario.Injections {
		err := errNoTarget
		for errors.Is(err, errNoTarget) && ctx.Err() == nil {
			err = a.injectRun(ctx, m)
		}
		a.countFault(m, err)
	}
}

func (t *trial) killSupervisor(ctx context.Context, m injection) error {
	t.parts.Lock()
	defer t.parts.Unlock()
	status, err := t.management(ctx)
	if err != nil {
		return err
	}
	if status.Supervisor == nil || !kill(*status.Supervisor, syscall.SIGKILL) {
		return errNoTarget
	}
	sleep(ctx, m.For/2)
	return t.up(ctx)
}

func (t *trial) injectPart(ctx context.Context, m injection) error {
	t.parts.Lock()
	defer t.parts.Unlock()
	var target controlplane.Process
	// The part may be starting.
	err := poll(ctx, targetTimeout, func() error {
		status, err := t.management(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(status.Parts, func(p controlplane.PartStatus) bool { return p.Name == parts[m.Fault] })
		if i < 0 || !status.Parts[i].Running {
			return errNoTarget
		}
		target = status.Parts[i].Process
		return nil
	})
	if err != nil {
		return err
	}
	if m.Fault != stopManager {
		if !kill(target, syscall.SIGKILL) {
			return errNoTarget
		}
		return nil
	}
	if !kill(target, syscall.SIGSTOP) {
		return errNoTarget
	}
	defer kill(target, syscall.SIGCONT)
	sleep(ctx, m.For)
	return nil
}

// kill signals a process unless its PID has been reused.
func kill(p controlplane.Process, signal syscall.Signal) bool {
	started, err := record.ProcessStartTime(p.PID)
	same := strings.HasSuffix(p.Started, fmt.Sprintf("/%d", started))
	return err == nil && same && syscall.Kill(p.PID, signal) == nil
}

// injectRun waits for a run of the workspace and disrupts it after a delay.
func (a *actor) injectRun(ctx context.Context, m injection) error {
	tool := m.Fault == killTofu || m.Fault == termTofu
	for {
		runner, tofu := a.runProcesses()
		if tool && tofu != nil || !tool && runner != nil {
			break
		}
		if !sleep(ctx, scanInterval) {
			return errNoTarget
		}
	}
	sleep(ctx, m.Delay)
	runner, tofu := a.runProcesses()
	if tool && tofu == nil || !tool && runner == nil {
		return errNoTarget
	}
	return a.disrupt(ctx, m, runner, tofu)
}

// runProcesses returns the processes of the current run, or nil.
func (a *actor) runProcesses() (runner, tofu *process) {
	runners, tools := a.processes()
	of := func(p process) bool { return p.workspace == a.namespace+"/"+a.scenario.Name }
	if i := slices.IndexFunc(runners, of); i >= 0 {
		runner = &runners[i]
	}
	if i := slices.IndexFunc(tools, of); i >= 0 {
		tofu = &tools[i]
	}
	return runner, tofu
}

// disrupt injects a fault into a run. The kill of a tool is recorded first, so that
// resources it creates until then count as interrupted.
func (a *actor) disrupt(ctx context.Context, m injection, runner, tofu *process) error {
	switch m.Fault {
	case killRunner:
		return syscall.Kill(runner.pid, syscall.SIGKILL)
	case killRunnerGroup:
		return syscall.Kill(-runner.pid, syscall.SIGKILL)
	case stopRunner:
		if err := syscall.Kill(runner.pid, syscall.SIGSTOP); err != nil {
			return fmt.Errorf("stopping the runner: %w", err)
		}
		sleep(ctx, m.For)
		return syscall.Kill(runner.pid, syscall.SIGCONT)
	case termTofu:
		return syscall.Kill(tofu.pid, syscall.SIGTERM)
	case killTofu:
		return a.killTool(tofu)
	case killBoth:
		err := syscall.Kill(runner.pid, syscall.SIGKILL)
		if tofu != nil {
			err = errors.Join(err, a.killTool(tofu))
		}
		return err
	default:
		a.recordDeleted(runner.run)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: record.SecretName(runner.run)}}
		return a.client.Delete(ctx, secret)
	}
}

func (a *actor) killTool(tofu *process) error {
	if err := a.write(killedLine(tofu.pid)); err != nil {
		return err
	}
	return syscall.Kill(tofu.pid, syscall.SIGKILL)
}
