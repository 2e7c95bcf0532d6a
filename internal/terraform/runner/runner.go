// Package runner carries out one run: it reads the request, claims it, locks
// the state, drives the tool and writes down the result. Both executors start
// it, so what survives a crash is one piece of code.
package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/record"
)

// Config is what a runner is started with. Nothing in it is secret.
type Config struct {
	// Namespace and RunID name the run.
	Namespace string
	RunID     string
	// API reaches the API server, Kubeconfig is the same for the tool's
	// backend; empty inside a cluster.
	API        *rest.Config
	Kubeconfig []byte
	// Binary is OpenTofu or Terraform; empty looks at PATH.
	Binary string
	// WorkDir holds the working directories of all workspaces, and what they
	// share.
	WorkDir string
	// CLIConfig is the operator's CLI configuration of the tool.
	CLIConfig string
	// Inherit names variables of the runner's environment that reach the tool.
	Inherit []string
}

// Runner carries out one run.
type Runner struct {
	Config
	kube    *kube
	workdir *command.Workdir
}

// running is what is known of the run while it goes on.
type running struct {
	request *terraform.Request
	session *command.Session
	result  *terraform.Result
	report  *report
	locked  bool
	// changes are what the plan to be applied changes.
	changes []terraform.Change
}

func (r *running) printf(format string, args ...any) {
	fmt.Fprintf(&r.report.log, time.Now().UTC().Format("2006-01-02T15:04:05.000Z ")+format+"\n", args...)
}

// Run carries out the run. Its error is about the runner itself; how the run
// ended is in its result. Ending the context stops the run gracefully.
func Run(ctx context.Context, config Config) error {
	kube, err := newKube(config.API)
	if err != nil {
		return err
	}
	r := &Runner{Config: config, kube: kube}
	request, err := r.claim(ctx)
	if errors.Is(err, errTaken) {
		return nil
	}
	if err != nil {
		return err
	}
	run := &running{
		request: request,
		result:  &terraform.Result{RunID: r.RunID, Operation: request.Operation, StartedAt: time.Now()},
		report:  newReport(),
	}
	stopReporting := r.startReporting(ctx, run)
	err = r.carryOut(ctx, run)
	stopReporting()
	run.conclude(err)
	return r.finish(ctx, run)
}

// carryOut does everything between the claim and the result.
func (r *Runner) carryOut(ctx context.Context, run *running) error {
	request := run.request
	if err := request.Validate(); err != nil {
		return terminal("Invalid request", err)
	}
	if request.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, request.Timeout)
		defer cancel()
	}
	tool, err := command.Find(r.Binary)
	if err != nil {
		return terminal("No OpenTofu or Terraform", err)
	}
	r.workdir = &command.Workdir{
		Tool: tool,
		Dir:  filepath.Join(r.WorkDir, "workspaces", request.Workspace.Namespace, request.Workspace.Name),
		// What one workspace's init leaves spares others theirs.
		Cache: filepath.Join(r.WorkDir, "templates"), PluginCache: filepath.Join(r.WorkDir, "plugins"),
		CLIConfig: r.CLIConfig, Kubeconfig: r.Kubeconfig, Inherit: r.Inherit,
		Log: &run.report.log, OnEvent: run.report.observe,
	}
	// Credentials, plans and event streams do not outlive the run.
	defer func() {
		if err := r.workdir.Scrub(); err != nil {
			run.printf("Cleaning up: %v", err)
		}
	}()
	if request.Backend.Type == terraform.BackendKubernetes {
		if err := r.lock(ctx, request); err != nil {
			return err
		}
		run.locked = true
	}
	defer func() {
		if run.locked {
			if err := r.unlock(ctx, request); err != nil {
				run.printf("%v", err)
			}
		}
	}()
	if err := r.prepare(ctx, run); err != nil {
		return err
	}
	if err := r.ensureState(ctx, run); err != nil {
		return err
	}
	if err := r.rescue(ctx, run); err != nil {
		return err
	}
	err = r.unlocked(ctx, run, func() error { return r.perform(ctx, run) })
	saved, rescueErr := r.rescueAfter(context.WithoutCancel(ctx), run, err)
	if saved && rescueErr == nil {
		return errSavedLate
	}
	return errors.Join(err, rescueErr)
}

// unlocked performs, and once more when a lock stood in the way that may be
// broken: that of a run that is proven gone, or the one a person named. Only
// backends that lock by themselves come to this.
func (r *Runner) unlocked(ctx context.Context, run *running, perform func() error) error {
	err := perform()
	failure := command.AsFailure(err)
	if failure == nil || failure.Lock == nil || run.locked {
		return err
	}
	gone := slices.ContainsFunc(run.request.GoneHolders, func(h terraform.Holder) bool { return h.Held(*failure.Lock) })
	if !gone && failure.Lock.ID != run.request.BreakLock {
		return err
	}
	run.printf("Breaking the lock %s of %s", failure.Lock.ID, failure.Lock.Who)
	if err := run.session.ForceUnlock(ctx, failure.Lock.ID); err != nil {
		return err
	}
	return perform()
}

// errSavedLate means that the state was saved after all. What was applied is in
// it; the next run finds out what is left to do.
var errSavedLate = errors.New("the state could not be saved at first")

// prepare makes the working directory ready. A module that was fetched is
// looked at before it is used: what it declares decides how values go in.
func (r *Runner) prepare(ctx context.Context, run *running) error {
	run.report.enter(terraform.PhaseInitialising)
	started := time.Now()
	defer func() { run.phase(terraform.PhaseInitialising, started) }()
	var err error
	if run.session, err = command.Prepare(ctx, r.workdir, run.request); err != nil {
		return err
	}
	if run.request.Module.Source == terraform.SourceRemote {
		if err := encodeVariables(run); err != nil {
			return err
		}
		run.request.Module.Refetch = false
		if run.session, err = command.Prepare(ctx, r.workdir, run.request); err != nil {
			return err
		}
	}
	return nil
}

func (r *running) phase(name terraform.Phase, started time.Time) {
	r.result.Phases = append(r.result.Phases, terraform.PhaseTime{Name: name, Duration: time.Since(started)})
}

// finish writes down the result. The run is not over before that. What is too
// large for a Secret goes without its log, and then without its outputs: a run
// that leaves nothing would be taken for lost, and done again and again.
func (r *Runner) finish(ctx context.Context, run *running) error {
	run.result.FinishedAt = time.Now()
	err := r.writeResult(ctx, run.result, run.report.log.Bytes())
	if tooLarge(err) {
		err = r.writeResult(ctx, run.result, []byte("The log and the result are too large for one Secret; the log is left out.\n"))
	}
	if tooLarge(err) {
		short := &terraform.Result{
			RunID: run.result.RunID, Operation: run.result.Operation, StartedAt: run.result.StartedAt, FinishedAt: run.result.FinishedAt,
			State: run.result.State, Snapshot: run.result.Snapshot, Phases: run.result.Phases,
			Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal,
			Diagnostics: diagnostic("Result too large", "The outputs and the changes do not fit a Secret, which holds 1 MiB: make the outputs smaller. What was applied stays applied."),
		}
		err = r.writeResult(ctx, short, nil)
	}
	return err
}

func (r *Runner) writeResult(ctx context.Context, result *terraform.Result, log []byte) error {
	patch, err := record.FinishPatch(result, log)
	if err != nil {
		return err
	}
	return persist(ctx, "writing the result", func(ctx context.Context) error {
		return r.kube.patchSecret(ctx, r.Namespace, record.SecretName(r.RunID), patch)
	})
}

func tooLarge(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// RemoveWorkspace removes the working directory of a workspace that is gone,
// unless it has a state that could not be saved: nothing else knows what is in
// it, and the next run there puts it back.
func RemoveWorkspace(workDir, namespace, name string) error {
	dir := filepath.Join(workDir, "workspaces", namespace, name)
	if files, err := command.RescuedState(dir); err != nil || len(files) > 0 {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing a working directory: %w", err)
	}
	return nil
}
