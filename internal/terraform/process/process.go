// Package process runs the runner as a child of the manager. A child outlives a
// manager that is killed: it finishes its run, and the next manager finds the
// result.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/runner"
)

// Options is how children are started.
type Options struct {
	// Reader reads runs' Secrets and pods.
	Reader client.Reader
	// Runner is the runner program, Binary is OpenTofu or Terraform.
	Runner string
	Binary string
	// WorkDir holds the working directories.
	WorkDir string
	// Kubeconfig is a file that reaches the API server; empty inside a cluster.
	Kubeconfig string
	// Inherit names environment variables that reach the tool.
	Inherit string
	// Grace is how long children may take to stop when the manager ends.
	Grace time.Duration
	// OnExit is called when a child has ended, with or without a result. It
	// must not block.
	OnExit func(terraform.Run)
}

// Executor starts a child for each run.
type Executor struct {
	Options

	mu       sync.Mutex
	children map[runKey]*child
	stopping bool
}

var _ terraform.Runner = &Executor{}

// child is a runner's process, started by this manager or by one before it.
type child struct {
	pid  int
	done chan struct{}
}

// runKey names a run: an ID is unique within its namespace only.
type runKey struct{ namespace, id string }

func keyOf(run terraform.Run) runKey { return runKey{run.Namespace, run.ID} }

// New returns an executor that has no children.
func New(options Options) *Executor {
	return &Executor{Options: options, children: map[runKey]*child{}}
}

// Start begins the run unless it has begun already.
func (e *Executor) Start(ctx context.Context, run terraform.Run) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopping {
		return errors.New("starting a run: the manager is ending")
	}
	if _, exists := e.children[keyOf(run)]; exists {
		return nil
	}
	logs := e.logFile(run)
	if err := os.MkdirAll(filepath.Dir(logs), 0o700); err != nil {
		return fmt.Errorf("making the directory of runs: %w", err)
	}
	out, err := os.OpenFile(logs, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("creating a runner's log: %w", err)
	}
	defer out.Close()
	cmd := exec.Command(e.Runner,
		"--namespace="+run.Namespace, "--run="+run.ID, "--work-dir="+e.WorkDir,
		"--terraform-binary="+e.Binary, "--kubeconfig="+e.Kubeconfig, "--inherit-env="+e.Inherit)
	// A file, not a pipe: the child must be able to write when we are gone. A
	// session of its own: what stops us must not stop it.
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the runner: %w", err)
	}
	klog.FromContext(ctx).V(2).Info("Started runner", "run", run.ID, "pid", cmd.Process.Pid)
	c := &child{pid: cmd.Process.Pid, done: make(chan struct{})}
	e.children[keyOf(run)] = c
	go func() {
		// How it ended is in the run's result.
		_ = cmd.Wait()
		e.ended(run, c)
	}()
	return nil
}

// ended forgets a child and says so.
func (e *Executor) ended(run terraform.Run, c *child) {
	e.mu.Lock()
	delete(e.children, keyOf(run))
	e.mu.Unlock()
	close(c.done)
	if e.OnExit != nil {
		e.OnExit(run)
	}
}

// Observe tells whether the run's process exists.
func (e *Executor) Observe(ctx context.Context, run terraform.Run) (terraform.Liveness, error) {
	if e.isChild(run) {
		return terraform.LivenessRunning, nil
	}
	identity, err := e.identity(ctx, run)
	if err != nil {
		return terraform.LivenessUnknown, err
	}
	if identity == nil {
		return terraform.LivenessPending, nil
	}
	if identity.PodName != "" && identity.PodUID != os.Getenv("POD_UID") {
		return e.observePod(ctx, identity)
	}
	host, err := os.Hostname()
	if err != nil {
		return terraform.LivenessUnknown, fmt.Errorf("finding the host's name: %w", err)
	}
	switch {
	case identity.PodName == "" && identity.Host != host:
		return terraform.LivenessUnknown, nil
	case identity.Boot != record.BootID() || !identity.Alive():
		return terraform.LivenessGone, nil
	}
	e.adopt(run, identity)
	return terraform.LivenessRunning, nil
}

func (e *Executor) isChild(run terraform.Run) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, exists := e.children[keyOf(run)]
	return exists
}

func (e *Executor) identity(ctx context.Context, run terraform.Run) (*record.Identity, error) {
	var secret corev1.Secret
	if err := e.Reader.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: record.SecretName(run.ID)}, &secret); err != nil {
		return nil, fmt.Errorf("reading the run: %w", err)
	}
	return record.RunIdentity(&secret)
}

// observePod asks Kubernetes about a runner in another pod of the manager.
func (e *Executor) observePod(ctx context.Context, identity *record.Identity) (terraform.Liveness, error) {
	var pod corev1.Pod
	err := e.Reader.Get(ctx, client.ObjectKey{Namespace: identity.PodNamespace, Name: identity.PodName}, &pod)
	return identity.PodLiveness(&pod, err)
}

// Stop asks the run to end gracefully.
func (e *Executor) Stop(ctx context.Context, run terraform.Run) error {
	e.mu.Lock()
	c, exists := e.children[keyOf(run)]
	e.mu.Unlock()
	if !exists {
		if liveness, err := e.Observe(ctx, run); err != nil || liveness != terraform.LivenessRunning {
			return err
		}
		e.mu.Lock()
		c, exists = e.children[keyOf(run)]
		e.mu.Unlock()
		if !exists {
			return nil
		}
	}
	return c.signal(syscall.SIGTERM)
}

func (c *child) signal(signal syscall.Signal) error {
	if err := syscall.Kill(c.pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stopping the runner: %w", err)
	}
	return nil
}

// Forget removes the runner's own log; the run's is in its Secret.
func (e *Executor) Forget(_ context.Context, run terraform.Run) error {
	if err := os.Remove(e.logFile(run)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("forgetting a run: %w", err)
	}
	return nil
}

// Remove removes the working directory of a workspace that is gone.
func (e *Executor) Remove(_ context.Context, workspace terraform.WorkspaceRef) error {
	return runner.RemoveWorkspace(e.WorkDir, workspace.Namespace, workspace.Name)
}

func (e *Executor) logFile(run terraform.Run) string {
	return filepath.Join(e.WorkDir, "runs", run.Namespace, run.ID+".log")
}

// Shutdown asks all children to end gracefully and waits for them. A run that
// is interrupted goes on with the next manager.
func (e *Executor) Shutdown(ctx context.Context) error {
	e.mu.Lock()
	e.stopping = true
	var waiting []*child
	for _, c := range e.children {
		waiting = append(waiting, c)
	}
	e.mu.Unlock()
	var errs []error
	for _, c := range waiting {
		errs = append(errs, c.signal(syscall.SIGTERM))
	}
	for _, c := range waiting {
		select {
		case <-c.done:
		case <-ctx.Done():
			return errors.Join(append(errs, fmt.Errorf("waiting for %d runs to stop: %w", len(waiting), ctx.Err()))...)
		}
	}
	return errors.Join(errs...)
}
