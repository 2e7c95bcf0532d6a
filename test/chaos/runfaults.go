package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/terraform"
)

// injectRuns disrupts the runs of the workspace one after the other until the
// scenario ends.
func (a *actor) injectRuns(ctx context.Context) {
	for _, m := range a.scenario.Injections {
		err := errNoTarget
		for errors.Is(err, errNoTarget) && ctx.Err() == nil {
			err = a.injectRun(ctx, m)
		}
		a.countFault(m.Fault, err)
	}
}

// victim returns the process of a run that a fault needs, or nil.
func (r runProcesses) victim(f fault) *process {
	switch f {
	case killTofu, termTofu, stopTofu, orphanTofu:
		return r.tool
	case killProvider:
		return r.provider
	case deletePod, evictPod, killContainer, killShim:
		return r.init
	default:
		return r.runner
	}
}

// injectRun waits for a run of the workspace and disrupts it after a delay.
func (a *actor) injectRun(ctx context.Context, m injection) error {
	for {
		found := a.runProcesses()
		if found.victim(m.Fault) != nil && (!m.Changing || found.tool != nil && found.tool.changes) {
			break
		}
		if !sleep(ctx, scanInterval) {
			return errNoTarget
		}
	}
	sleep(ctx, m.Delay)
	found := a.runProcesses()
	if found.victim(m.Fault) == nil {
		return errNoTarget
	}
	return a.disrupt(ctx, m, found)
}

// disrupt injects a fault into a run.
func (a *actor) disrupt(ctx context.Context, m injection, run runProcesses) error {
	switch m.Fault {
	case killRunner:
		return run.runner.signal(syscall.SIGKILL)
	case termRunner:
		return run.runner.signal(syscall.SIGTERM)
	case killRunnerGroup:
		return syscall.Kill(-run.runner.pid, syscall.SIGKILL)
	case stopRunner:
		return suspend(ctx, run.runner.target, m.For)
	case termTofu:
		return a.interruptTool(ctx, run.tool)
	case stopTofu:
		return suspend(ctx, run.tool.target, m.For)
	case killTofu:
		return a.killTool(ctx, run.tool)
	case killProvider:
		return run.provider.signal(syscall.SIGKILL)
	case orphanTofu:
		return orphan(ctx, run, m.For)
	case killBoth:
		err := run.runner.signal(syscall.SIGKILL)
		if run.tool != nil {
			err = errors.Join(err, a.killTool(ctx, run.tool))
		}
		return err
	case deletePod, evictPod:
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: run.init.pod}}
		if m.Fault == evictPod {
			return a.client.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{})
		}
		return a.client.Delete(ctx, pod)
	case killContainer, killShim:
		return a.killContainer(ctx, run, m.Fault == killShim)
	default:
		// Its tool is interrupted, and may be another one by then.
		if err := a.journal.write(a.workspace(), interruptedLine(anyTool)); err != nil {
			return err
		}
		return a.deleteRecord(ctx, run.runner.run)
	}
}

// interruptTool interrupts a tool, which is suspended while that is recorded.
func (t *trial) interruptTool(ctx context.Context, tool *process) error {
	if err := tool.suspend(ctx); err != nil {
		return err
	}
	if err := t.journal.write(tool.workspace, interruptedLine(tool.name())); err != nil {
		return err
	}
	return errors.Join(tool.signal(syscall.SIGTERM), tool.signal(syscall.SIGCONT))
}

// orphan kills the runner of a tool while the tool is suspended.
func orphan(ctx context.Context, run runProcesses, d time.Duration) error {
	if run.runner == nil {
		return errNoTarget
	}
	if err := run.tool.suspend(ctx); err != nil {
		return err
	}
	err := run.runner.signal(syscall.SIGKILL)
	sleep(ctx, d)
	return errors.Join(err, run.tool.signal(syscall.SIGCONT))
}

// killTool kills a tool. It is suspended while its kill is recorded: one that has exited before
// excuses nothing, and neither does what it does until the signal arrives.
func (t *trial) killTool(ctx context.Context, tool *process) error {
	if err := tool.suspend(ctx); err != nil {
		return err
	}
	if err := t.recordKill(ctx, tool, true); err != nil {
		return err
	}
	return tool.signal(syscall.SIGKILL)
}

// suspend suspends a process, and returns an error if it has exited.
func (t target) suspend(ctx context.Context) error {
	if err := t.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	err := poll(ctx, suspendTimeout, func(context.Context) error {
		proc, err := procfs.NewProc(t.pid)
		if err != nil {
			return errNoTarget
		}
		stat, err := proc.Stat()
		if err != nil || stat.State != "T" {
			return errNoTarget
		}
		return nil
	})
	if err != nil {
		// Nothing else would let it continue.
		_ = t.signal(syscall.SIGCONT)
	}
	return err
}

const (
	// suspendTimeout is how long a process may take to stop after SIGSTOP.
	suspendTimeout = time.Second
	// saveTimeout is how long reading a state before a kill may take, while the tool is suspended.
	saveTimeout = 10 * time.Second
)

// recordKill records that a suspended tool is killed, and which resources are safe: those in the
// backend, and those in the working directory, if it outlives the tool.
func (t *trial) recordKill(ctx context.Context, tool *process, outlived bool) error {
	namespace, name, _ := strings.Cut(tool.workspace, "/")
	reading, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	lines := killedLine(tool.name())
	// Without the API server or the backend nothing is known to be safe.
	if text, err := t.store.read(reading, namespace, name); err == nil {
		lines += savedLines(text)
	} else {
		t.excuse(excuseUnread)
	}
	if outlived {
		// With another backend there is no file.
		if text, err := os.ReadFile(filepath.Join(tool.dir, stateFile)); err == nil {
			lines += savedLines(text)
		}
	}
	t.guard.recordKill(tool.workspace)
	return t.journal.write(tool.workspace, lines)
}

// stateFile is the name of the state in a working directory.
const stateFile = terraform.ReservedFilePrefix + "state.tfstate"

// savedLines returns the entries of the resources of a state. A file that the tool is
// writing may be incomplete.
func savedLines(state []byte) string {
	resources, err := parseResources(state)
	if err != nil {
		return ""
	}
	var lines strings.Builder
	for _, id := range sorted(resources) {
		lines.WriteString(savedLine(id))
	}
	return lines.String()
}

// killContainer kills all processes of the container of a run, and the shim of its pod
// too. The processes are suspended first, because the runner may start another tool.
func (t *trial) killContainer(ctx context.Context, run runProcesses, shim bool) error {
	if run.init == nil {
		return errNoTarget
	}
	if run.runner != nil {
		_ = run.runner.signal(syscall.SIGSTOP)
	}
	if err := run.init.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	// A tool that was just started may not have its name yet.
	time.Sleep(scanInterval)
	for _, tool := range t.processes().tools {
		if tool.workspace != run.init.workspace {
			continue
		}
		if err := tool.suspend(ctx); err != nil {
			// It has exited.
			continue
		}
		if err := t.recordKill(ctx, &tool, false); err != nil {
			return err
		}
	}
	if shim {
		if err := syscall.Kill(run.init.parent, syscall.SIGKILL); err != nil {
			return fmt.Errorf("killing the shim: %w", err)
		}
	}
	return run.init.signal(syscall.SIGKILL)
}
