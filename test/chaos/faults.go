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

// hunt is how long a fault waits for a part that is on its way up.
const hunt = 10 * time.Second

// errMissed means that there was nothing to hit.
var errMissed = errors.New("nothing to hit")

// parts are those of the environment that faults hit.
var parts = map[fault]string{
	killManager: environment.Manager, stopManager: environment.Manager,
	killAPIServer: controlplane.APIServer, killEtcd: controlplane.Etcd, killClusterAPI: environment.ClusterAPI,
}

// inject harms the parts as the schedule says, and blocks until it has.
func (t *trial) inject(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	began := time.Now()
	for _, m := range t.schedule.Mishaps {
		if !sleep(ctx, time.Until(began.Add(m.At))) {
			return
		}
		group.Go(func() {
			if m.Fault == killSupervisor {
				t.noteFault(m, t.killSupervisor(ctx, m))
			} else {
				t.noteFault(m, t.harmPart(ctx, m))
			}
		})
	}
}

// suffer harms the workspace's runs one after the other until the story ends.
func (a *actor) suffer(ctx context.Context) {
	for _, m := range a.story.Mishaps {
		err := errMissed
		for errors.Is(err, errMissed) && ctx.Err() == nil {
			err = a.harmRun(ctx, m)
		}
		a.noteFault(m, err)
	}
}

func (t *trial) killSupervisor(ctx context.Context, m mishap) error {
	t.parts.Lock()
	defer t.parts.Unlock()
	status, err := t.management(ctx)
	if err != nil {
		return err
	}
	if status.Supervisor == nil || !kill(*status.Supervisor, syscall.SIGKILL) {
		return errMissed
	}
	sleep(ctx, m.For/2)
	return t.up(ctx)
}

func (t *trial) harmPart(ctx context.Context, m mishap) error {
	t.parts.Lock()
	defer t.parts.Unlock()
	var victim controlplane.Process
	// It may be on its way up.
	err := await(ctx, hunt, func() error {
		status, err := t.management(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(status.Parts, func(p controlplane.PartStatus) bool { return p.Name == parts[m.Fault] })
		if i < 0 || !status.Parts[i].Running {
			return errMissed
		}
		victim = status.Parts[i].Process
		return nil
	})
	if err != nil {
		return err
	}
	if m.Fault != stopManager {
		if !kill(victim, syscall.SIGKILL) {
			return errMissed
		}
		return nil
	}
	if !kill(victim, syscall.SIGSTOP) {
		return errMissed
	}
	defer kill(victim, syscall.SIGCONT)
	sleep(ctx, m.For)
	return nil
}

// kill signals a process if it still is the one that was meant.
func kill(p controlplane.Process, signal syscall.Signal) bool {
	started, err := record.ProcessStartTime(p.PID)
	same := strings.HasSuffix(p.Started, fmt.Sprintf("/%d", started))
	return err == nil && same && syscall.Kill(p.PID, signal) == nil
}

// harmRun waits for a run of the workspace and hits it somewhere in its middle.
func (a *actor) harmRun(ctx context.Context, m mishap) error {
	tool := m.Fault == killTofu || m.Fault == termTofu
	for {
		runner, tofu := a.current()
		if tool && tofu != nil || !tool && runner != nil {
			break
		}
		if !sleep(ctx, scanInterval) {
			return errMissed
		}
	}
	sleep(ctx, m.Later)
	runner, tofu := a.current()
	if tool && tofu == nil || !tool && runner == nil {
		return errMissed
	}
	return a.hit(ctx, m, runner, tofu)
}

// current returns the processes of the current run, or nil.
func (a *actor) current() (runner, tofu *process) {
	runners, tools := a.processes()
	of := func(p process) bool { return p.workspace == a.namespace+"/"+a.story.Name }
	if i := slices.IndexFunc(runners, of); i >= 0 {
		runner = &runners[i]
	}
	if i := slices.IndexFunc(tools, of); i >= 0 {
		tofu = &tools[i]
	}
	return runner, tofu
}

// hit harms a run. That a tool is killed is written down first, so that what it
// does until then is known as interrupted.
func (a *actor) hit(ctx context.Context, m mishap, runner, tofu *process) error {
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
		a.noteDeleted(runner.run)
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
