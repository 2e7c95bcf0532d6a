// Package process executes runs as child processes of the manager. A child
// survives the manager: it finishes its run, and the next manager reads the
// result.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/access"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/runner"
)

// Options configures an Executor.
type Options struct {
	// Reader reads Secrets of runs and pods.
	Reader client.Reader
	// Runner is the path of the runner, and Binary the path of OpenTofu or
	// Terraform.
	Runner string
	Binary string
	// WorkDir contains the working directories of the workspaces.
	WorkDir string
	// Client creates the service accounts of runs, and API is how to reach the API
	// server. A run gets the address and the certificate authority, and a token of its
	// own instead of the manager's credentials.
	Client client.Client
	API    *rest.Config
	// Inherit lists the environment variables that the runner passes to Binary.
	Inherit string
	// Hidden are files and directories that modules must not use, in addition to those
	// of other workspaces. Sandbox is whether a sandbox is required for it.
	Hidden  []string
	Sandbox runner.Sandbox
	// Grace is how long the children of a manager in a pod may take to end when it shuts
	// down.
	Grace time.Duration
	// OnExit is called when a child has exited, with or without a result. It
	// must not block.
	OnExit func(terraform.Run)
}

// Executor starts a child process for each run.
type Executor struct {
	Options

	mu       sync.Mutex
	children map[runKey]*child
	stopping bool
}

var _ terraform.Runner = &Executor{}

// child is a runner process that this or an earlier manager started.
type child struct {
	run  terraform.Run
	pid  int
	done chan struct{}
}

// runKey identifies a run. A run ID is unique only within its namespace.
type runKey struct{ namespace, id string }

func keyOf(run terraform.Run) runKey { return runKey{run.Namespace, run.ID} }

// New returns an executor without children.
func New(options Options) *Executor {
	return &Executor{Options: options, children: map[runKey]*child{}}
}

// Start starts the run unless it has already started.
func (e *Executor) Start(ctx context.Context, run terraform.Run) error {
	if e.child(run) != nil {
		return nil
	}
	request, err := access.PendingRequest(ctx, e.Reader, run)
	if err != nil || request == nil {
		return err
	}
	// It is large, and the child is remembered until it exits.
	run.Request = nil
	kubeconfig, err := e.kubeconfig(ctx, run, request)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopping {
		return errors.New("starting run: the manager is shutting down")
	}
	if _, exists := e.children[keyOf(run)]; exists {
		return nil
	}
	return e.start(ctx, run, kubeconfig)
}

// start starts the child process. The caller holds the mutex.
func (e *Executor) start(ctx context.Context, run terraform.Run, kubeconfig []byte) error {
	logs := e.logFile(run)
	if err := os.MkdirAll(filepath.Dir(logs), 0o700); err != nil {
		return fmt.Errorf("creating runner log directory: %w", err)
	}
	out, err := os.OpenFile(logs, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("creating runner log: %w", err)
	}
	defer out.Close()
	credentials, err := inherited(kubeconfig)
	if err != nil {
		return err
	}
	defer credentials.Close()
	cmd := exec.Command(e.Runner,
		namespaceArg(run), runArg(run), "--work-dir="+e.WorkDir,
		"--terraform-binary="+e.Binary, "--kubeconfig-fd=3", "--inherit-env="+e.Inherit,
		"--hide="+strings.Join(append([]string{e.WorkDir}, e.Hidden...), ","))
	if e.Sandbox != "" {
		cmd.Args = append(cmd.Args, "--sandbox="+string(e.Sandbox))
	}
	cmd.ExtraFiles = []*os.File{credentials}
	// The child writes to a file, because a pipe would break when the manager
	// exits. It has its own session, so that signals to the manager's process
	// group do not reach it.
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(e.environment(), terraform.DigestEnv+"="+run.Digest)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting runner: %w", err)
	}
	klog.FromContext(ctx).V(2).Info("Started runner", "run", run.ID, "pid", cmd.Process.Pid)
	c := &child{run: run, pid: cmd.Process.Pid, done: make(chan struct{})}
	e.children[keyOf(run)] = c
	go func() {
		// The result of the run shows how it ended.
		_ = cmd.Wait()
		e.exited(run, c)
	}()
	return nil
}

// namespaceArg and runArg are the arguments that identify the runner of a run.
func namespaceArg(run terraform.Run) string { return "--namespace=" + run.Namespace }
func runArg(run terraform.Run) string       { return "--run=" + run.ID }

// exited removes a child and calls OnExit.
func (e *Executor) exited(run terraform.Run, c *child) {
	e.mu.Lock()
	delete(e.children, keyOf(run))
	e.mu.Unlock()
	close(c.done)
	if e.OnExit != nil {
		e.OnExit(run)
	}
}

// Observe returns the liveness of the run's process.
func (e *Executor) Observe(ctx context.Context, run terraform.Run) (terraform.Liveness, error) {
	if e.child(run) != nil {
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
	hostname, err := os.Hostname()
	if err != nil {
		return terraform.LivenessUnknown, fmt.Errorf("reading hostname: %w", err)
	}
	switch {
	case identity.PodName == "" && identity.Host != hostname:
		return terraform.LivenessUnknown, nil
	case identity.Boot != host.BootID() || !identity.Alive() || isAnother(run, identity.PID):
		return terraform.LivenessGone, nil
	}
	e.adopt(run, identity)
	return terraform.LivenessRunning, nil
}

// child returns the runner of a run if this manager watches it, or nil.
func (e *Executor) child(run terraform.Run) *child {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.children[keyOf(run)]
}

func (e *Executor) identity(ctx context.Context, run terraform.Run) (*record.Identity, error) {
	secret, err := access.ReadRun(ctx, e.Reader, run)
	if err != nil {
		return nil, err
	}
	return record.RunIdentity(secret)
}

// observePod returns the liveness of a runner in another pod of the manager.
func (e *Executor) observePod(ctx context.Context, identity *record.Identity) (terraform.Liveness, error) {
	var pod corev1.Pod
	err := e.Reader.Get(ctx, client.ObjectKey{Namespace: identity.PodNamespace, Name: identity.PodName}, &pod)
	return identity.PodLiveness(&pod, err)
}

// Stop stops the runner, which completes an apply unless it is to interrupt its tool.
func (e *Executor) Stop(ctx context.Context, run terraform.Run, interrupt bool) error {
	c := e.child(run)
	if c == nil {
		// Observe watches a runner that an earlier manager started.
		if _, err := e.Observe(ctx, run); err != nil {
			return err
		}
		if c = e.child(run); c == nil {
			return nil
		}
	}
	if interrupt {
		if err := access.Interrupt(ctx, e.Reader, e.Client, run); err != nil {
			return err
		}
	}
	return c.stop()
}

// End stops a run whose record was deleted. A process that an earlier manager started is
// not found: the lock of the state keeps others away from it.
func (e *Executor) End(_ context.Context, run terraform.Run) (bool, error) {
	c := e.child(run)
	return c == nil, c.stop()
}

// stop asks the runner to stop: at once if the run is interrupted, else after an apply. It does
// nothing without a runner.
func (c *child) stop() error {
	if c == nil {
		return nil
	}
	if err := syscall.Kill(c.pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stopping runner: %w", err)
	}
	return nil
}

// Forget removes the log of the runner process and the service account of the run. The
// log of the run is in its Secret.
func (e *Executor) Forget(ctx context.Context, run terraform.Run) error {
	err := e.granter().Revoke(ctx, run)
	if removed := os.Remove(e.logFile(run)); removed != nil && !errors.Is(removed, os.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("removing runner log: %w", removed))
	}
	return err
}

// Remove removes the working directory of a deleted workspace and the service accounts
// of its runs.
func (e *Executor) Remove(ctx context.Context, workspace terraform.WorkspaceRef) error {
	// A runner that still saves a state needs its account.
	if err := runner.RemoveWorkspace(ctx, e.WorkDir, workspace); err != nil {
		return err
	}
	return e.granter().RevokeAll(ctx, workspace)
}

// Retain leaves the working directory to the next workspace of the same name.
func (e *Executor) Retain(ctx context.Context, workspace terraform.WorkspaceRef) error {
	return runner.RetainWorkspace(ctx, e.WorkDir, workspace)
}

func (e *Executor) logFile(run terraform.Run) string {
	return filepath.Join(e.WorkDir, "runs", run.Namespace, run.ID+".log")
}

// Run blocks until ctx is cancelled and then leaves the children, which the next manager
// finds. It is a runnable of the manager.
func (e *Executor) Run(ctx context.Context) error {
	<-ctx.Done()
	e.mu.Lock()
	e.stopping = true
	e.mu.Unlock()
	if !inContainer() {
		return nil
	}
	return e.shutdown(context.WithoutCancel(ctx))
}

// inContainer reports whether the children end with this process: the kernel kills them with
// the first process of a container.
func inContainer() bool { return os.Getpid() == 1 || os.Getenv("POD_UID") != "" }

// lastMinutes is how long runs have to save their state when they are interrupted.
const lastMinutes = 2 * time.Minute

// shutdown stops the children and waits for them to exit. It interrupts an apply when the grace
// period is nearly over. The next manager continues interrupted runs.
func (e *Executor) shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.Grace)
	defer cancel()
	var errs []error
	for _, run := range e.runs() {
		errs = append(errs, e.child(run).stop())
	}
	if e.await(ctx, e.Grace-min(lastMinutes, e.Grace/2)) {
		return errors.Join(errs...)
	}
	for _, run := range e.runs() {
		errs = append(errs, e.Stop(ctx, run, true))
	}
	if !e.await(ctx, e.Grace) {
		errs = append(errs, fmt.Errorf("waiting for %d runs to stop: %w", len(e.runs()), context.DeadlineExceeded))
	}
	return errors.Join(errs...)
}

// await waits until all children have exited, and reports whether they have.
func (e *Executor) await(ctx context.Context, timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, run := range e.runs() {
		if c := e.child(run); c != nil {
			select {
			case <-c.done:
			case <-ctx.Done():
				return false
			}
		}
	}
	return true
}

// runs returns the runs that have a child.
func (e *Executor) runs() []terraform.Run {
	e.mu.Lock()
	defer e.mu.Unlock()
	var running []terraform.Run
	for _, c := range e.children {
		running = append(running, c.run)
	}
	return running
}
