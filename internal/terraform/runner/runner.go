// Package runner executes one run: it reads and claims the request, locks the
// state, runs OpenTofu or Terraform (the tool), and writes the result. Both
// executors use it, so both have the same crash safety.
package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/command/binary"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/version"
)

// Config configures a runner. It contains no secrets.
type Config struct {
	// Namespace and RunID identify the run.
	Namespace string
	RunID     string
	// RequestDigest is the digest of the request to execute. The runner refuses another
	// one. If empty, it is not checked.
	RequestDigest string
	// API is the connection to the API server.
	API *rest.Config
	// Binary is the path of OpenTofu or Terraform. If empty, it is found in PATH.
	Binary string
	// WorkDir contains the working directories of all workspaces and their shared
	// caches.
	WorkDir string
	// Providers is a directory with installed providers.
	Providers string
	// Hidden are files and directories that the tool must not use. Sandbox is whether it
	// runs without a sandbox if this system has none.
	Hidden  []string
	Sandbox Sandbox
	// Inherit names variables of the runner's environment that the tool inherits.
	Inherit []string
	// Log receives the whole log of the run at its end, when sensitive values in it are
	// masked. If nil, only the Secret of the run has the log.
	Log io.Writer
}

// Runner executes one run.
type Runner struct {
	Config
	kube *kube
	// workdir is empty until the run has a tool. The parts of the runner share it.
	workdir   *command.Workdir
	secret    *runSecret
	lease     *stateLock
	storage   *storage
	rescue    *rescuer
	inSecret  *secretBackend
	inTool    *toolBackend
	describer *describer
}

func newRunner(config Config, kube *kube) *Runner {
	workdir := &command.Workdir{}
	secret := &runSecret{kube: kube, namespace: config.Namespace, id: config.RunID, digest: config.RequestDigest}
	stored := &storage{kube: kube, runID: config.RunID}
	rescue := &rescuer{storage: stored, secret: secret, workdir: workdir}
	return &Runner{
		Config: config, kube: kube, workdir: workdir, secret: secret, storage: stored, rescue: rescue,
		lease:     &stateLock{kube: kube, namespace: config.Namespace, runID: config.RunID},
		inSecret:  &secretBackend{kube: kube, rescue: rescue, workdir: workdir},
		inTool:    &toolBackend{rescue: rescue, workdir: workdir},
		describer: &describer{storage: stored, workdir: workdir},
	}
}

// execution is the state of the run during its execution.
type execution struct {
	request *terraform.Request
	session *command.Session
	result  *terraform.Result
	report  *report
	locked  bool
	// state is the state of the Kubernetes backend, nil for other backends.
	state *savedState
	// incomplete is set if the tool was killed while it wrote the state, and no complete
	// version of that state exists.
	incomplete bool
	// interrupted is closed when the tool is to be interrupted at once.
	interrupted <-chan struct{}
	// creates is set if the run may have written the first state of a backend.
	creates bool
	// enter is what an OperationShell does with the prepared working directory.
	enter func(ctx context.Context, session *command.Session) error
	// print is called with each line of the log of a shell, and lockErr is why its lock was
	// not released.
	print   func(line string)
	lockErr error
	// changes are the changes of the plan to apply.
	changes []terraform.Change
	// description is that of the plan in the plan file, or nil.
	description *description
	// secrets is set by redactor.
	secrets      *terraform.Redactor
	redactorOnce sync.Once
}

// redactor returns the redactor of the request, which needs time and memory to build.
func (run *execution) redactor() *terraform.Redactor {
	run.redactorOnce.Do(func() { run.secrets = run.request.Redactor() })
	return run.secrets
}

// printf writes a line to the run's log.
func (run *execution) printf(format string, args ...any) {
	line := run.redactor().Replace(fmt.Sprintf(format, args...))
	fmt.Fprintf(&run.report.log, "%s %s\n", time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), line)
	run.report.printed()
	if run.print != nil {
		run.print(line)
	}
}

// Run executes the run and writes its result. It returns an error only if the runner
// itself fails. Cancelling the context stops the run gracefully: an apply in progress is
// completed, unless a user has canceled the run or deletes the workspace.
func Run(ctx context.Context, config Config) error {
	kube, err := newKube(config.API)
	if err != nil {
		return err
	}
	r := newRunner(config, kube)
	request, err := r.secret.claim(ctx)
	if errors.Is(err, errClaimed) {
		return nil
	}
	if err != nil {
		return err
	}
	run := &execution{
		request: request,
		result:  &terraform.Result{RunID: r.RunID, Operation: request.Operation, StartedAt: time.Now()},
		report:  newReport(),
	}
	interrupted, stopWatching := r.secret.interruption(ctx)
	defer stopWatching()
	run.interrupted = interrupted
	stopReporting := r.secret.startReporting(ctx, run)
	err = r.execute(ctx, run)
	stopReporting()
	run.conclude(err)
	if r.Log != nil {
		// The Job is deleted as soon as the result is written.
		_, _ = r.Log.Write(run.report.log.Bytes())
	}
	return r.secret.finish(ctx, run)
}

// execute executes the run between the claim and the result.
func (r *Runner) execute(ctx context.Context, run *execution) error {
	request := run.request
	if request.Protocol > terraform.Protocol {
		return terminal("Runner outdated", fmt.Errorf("the manager has version %s and the runner %s, which does not understand its requests. Use the runner image of the manager's version: set --runner-image of the manager, or spec.runner.image of the WorkspaceProviderConfig", request.Manager, version.Version()))
	}
	if err := request.Validate(); err != nil {
		return terminal("Invalid request", err)
	}
	if request.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, request.Timeout)
		defer cancel()
	}
	tool, err := r.selectTool(ctx, run)
	if err != nil {
		return err
	}
	used, err := useDir(ctx, r.WorkDir, request.Workspace)
	if err != nil {
		return err
	}
	defer used.Release()
	others, releaseOthers := othersRunning(r.WorkDir, request.Workspace)
	defer releaseOthers()
	*r.workdir = command.Workdir{
		Tool:  tool,
		Dir:   workspaceDir(r.WorkDir, request.Workspace.Namespace, request.Workspace.Name),
		Cache: filepath.Join(r.WorkDir, "templates"), PluginCache: filepath.Join(r.WorkDir, "plugins"),
		Providers: r.Providers, CLIConfig: os.Getenv(command.CLIConfigEnv), Inherit: r.Inherit,
		Archive: r.storage.loadContent(request.Workspace.Namespace),
		Others:  others, Log: &run.report.log, OnEvent: run.report.observe,
	}
	if err := r.enterSandbox(run); err != nil {
		return err
	}
	// Credentials, plans and event streams are removed after the run.
	defer func() {
		if err := r.workdir.Scrub(); err != nil {
			run.printf("Error: removing secrets from the working directory: %v", err)
		}
	}()
	if request.Operation == terraform.OperationMoveState {
		return r.moveState(ctx, run)
	}
	unlock, err := r.lockState(ctx, run)
	if err != nil {
		return err
	}
	defer unlock()
	if request.Operation == terraform.OperationSaveState {
		return r.saveState(ctx, run)
	}
	if err := r.prepare(ctx, run); err != nil {
		return err
	}
	defer run.session.StopProviders()
	if run.locked {
		err = r.performOnSecret(ctx, run)
	} else {
		err = r.performOnBackend(ctx, run)
	}
	r.hideSensitive(ctx, run, command.AsFailure(err))
	return err
}

// selectTool returns the tool that the request requires.
func (r *Runner) selectTool(ctx context.Context, run *execution) (*binary.Tool, error) {
	tool, err := binary.Select(ctx, r.Binary, run.request.Tool)
	var unavailable *binary.NotAvailableError
	switch {
	case errors.As(err, &unavailable):
		run.result.ToolNotAvailable = true
		return nil, terminal("Tool not available", err)
	case err != nil:
		return nil, terminal("OpenTofu or Terraform not found", err)
	default:
		return tool, nil
	}
}

// lockState locks the state of the Kubernetes backend. The tool locks all others.
func (r *Runner) lockState(ctx context.Context, run *execution) (unlock func(), err error) {
	if run.request.Backend.Type != terraform.BackendKubernetes {
		return func() {}, nil
	}
	if err := r.lease.lock(ctx, run.request); err != nil {
		return nil, err
	}
	run.locked = true
	return func() {
		err := errNotReleased
		if run.enter == nil || run.keptState() {
			err = r.lease.unlock(ctx, run.request)
		}
		if err != nil && run.enter != nil {
			run.lockErr = &LockLeftError{err}
		} else if err != nil {
			run.printf("Error: %v", err)
		}
	}, nil
}

// errSavedLate means that the tool could not save the state but the runner could. It
// contains the applied changes, and the next run determines the rest.
var errSavedLate = errors.New("the state could not be saved at first")

// prepare prepares the working directory.
func (r *Runner) prepare(ctx context.Context, run *execution) error {
	run.report.enter(terraform.PhaseInitialising)
	started := time.Now()
	defer func() { run.phase(terraform.PhaseInitialising, started) }()
	if pids := r.workdir.Tool.Running(r.workdir.Dir); len(pids) > 0 {
		run.printf("Waiting for the tool of an earlier run to end (process %d)", pids[0])
	}
	var err error
	run.session, err = command.Prepare(ctx, r.workdir, run.request)
	if ctx.Err() != nil && r.secret.isInterrupted(context.WithoutCancel(ctx)) {
		// The user does not want that tool to continue, either.
		err = errors.Join(err, r.workdir.Tool.Interrupt(r.workdir.Dir))
	}
	if invalid, ok := errors.AsType[*command.InvalidInputsError](err); ok {
		run.result.InvalidInputs = string(invalid.Problems[0].Kind)
		return terminal("Invalid inputs", err)
	}
	if err != nil {
		return err
	}
	return r.storeContent(ctx, run)
}

// phase adds a phase that ends now to the result.
func (run *execution) phase(name terraform.Phase, started time.Time) {
	run.result.Phases = append(run.result.Phases, terraform.PhaseTime{Name: name, StartedAt: started, Duration: time.Since(started)})
}

// Limits of a result that is too large: the number of entries in its lists, and the
// size of its texts.
const (
	maxListed = 100
	maxText   = 16 << 10
)

// shortenLists omits most of the changes and diagnostics. The status has no more of
// them, and a plan that waits for approval has all of its changes in its own Secret.
func shortenLists(result *terraform.Result) {
	if plan := result.Plan; plan != nil && len(plan.Changes) > maxListed {
		plan.Omitted += len(plan.Changes) - maxListed
		plan.Changes = plan.Changes[:maxListed]
	}
	result.Drift = result.Drift[:min(maxListed, len(result.Drift))]
	result.Blocked = result.Blocked[:min(maxListed, len(result.Blocked))]
	result.Diagnostics = result.Diagnostics[:min(maxListed, len(result.Diagnostics))]
	for i := range result.Diagnostics {
		result.Diagnostics[i].Detail = message.Truncate(result.Diagnostics[i].Detail, maxText)
	}
	result.CommandOutput = message.Truncate(result.CommandOutput, maxText)
}

// omitOutputs omits the outputs. The run has failed then, because they are a part of
// what it applies.
func omitOutputs(result *terraform.Result) {
	if len(result.Outputs) == 0 {
		return
	}
	result.Outputs, result.OutputsTooLarge = nil, true
	result.Outcome, result.Class = terraform.OutcomeFailed, terraform.ClassTerminal
	result.Diagnostics = diagnostic("Outputs too large", "The outputs exceed 1 MiB, the limit of a Secret, or have more than 50,000 elements, and are not written. All changes are applied. Make the outputs smaller, for example by writing large values to a bucket or a parameter store.")
}

func tooLarge(err error) bool {
	return errors.Is(err, record.ErrResultTooLarge) || apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err)
}
