package runner

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/command/binary"
	"github.com/appthrust/capt/internal/terraform/record"
)

// Save waits for the tool that a crashed runner left in a pod, and saves the state in its
// working directory, which is deleted with the pod. The run stays without a result, so that
// the controller records its loss.
func Save(ctx context.Context, config Config) error {
	tool := &binary.Tool{Path: config.Binary}
	found, err := hasAnyUnsaved(config.WorkDir)
	if err == nil && !found && len(tool.Running(config.WorkDir)) == 0 {
		// The rights of a run that changed nothing may already be revoked.
		return nil
	}
	kube, err := newKube(config.API)
	if err != nil {
		return err
	}
	r := newRunner(config, kube)
	var secret *corev1.Secret
	err = retry(ctx, saveTimeout, "reading the run", apierrors.IsNotFound, func(ctx context.Context) (err error) {
		secret, err = r.kube.secret(ctx, r.Namespace, record.SecretName(r.RunID))
		return err
	})
	if err != nil {
		return err
	}
	if record.Finished(secret) {
		return nil
	}
	r.secret.uid = secret.UID
	request, err := record.Request(secret)
	if err != nil {
		return err
	}
	if err := r.awaitOrphan(ctx, tool, request); err != nil {
		return err
	}
	if request.Operation == terraform.OperationMoveState {
		// The files are copies of the state, which is still in its backend.
		return nil
	}
	*r.workdir = command.Workdir{Dir: workspaceDir(r.WorkDir, request.Workspace.Namespace, request.Workspace.Name)}
	run := &execution{
		request: request, report: newReport(),
		result: &terraform.Result{RunID: r.RunID, Operation: request.Operation, StartedAt: time.Now()},
	}
	return retry(ctx, saveTimeout, "saving the state", apierrors.IsNotFound, func(ctx context.Context) error { return r.saveAfterCrash(ctx, run) })
}

// awaitOrphan waits for the tool that a crashed runner of this run left. It has the time that
// the run has, unless the run is canceled.
func (r *Runner) awaitOrphan(ctx context.Context, tool *binary.Tool, request *terraform.Request) error {
	stopped, stop := context.WithCancel(ctx)
	stop()
	interrupted, release := r.secret.interruption(stopped)
	defer release()
	dir := workspaceDir(r.WorkDir, request.Workspace.Namespace, request.Workspace.Name)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-interrupted:
			_ = tool.Interrupt(dir) // The limit of the run follows.
		case <-ended:
		}
	}()
	patience := binary.Patience{Limit: request.Limit(), Grace: request.Grace}
	return tool.AwaitEnd(context.WithoutCancel(ctx), dir, nil, patience)
}

// hasAnyUnsaved reports whether a runner left a state in any working directory.
func hasAnyUnsaved(workDir string) (bool, error) {
	workspaces, err := filepath.Glob(workspaceDir(workDir, "*", "*"))
	if err != nil {
		return false, fmt.Errorf("listing the working directories: %w", err)
	}
	for _, dir := range workspaces {
		if unsaved, err := command.UnsavedStates(dir); err != nil || len(unsaved) > 0 {
			return true, err
		}
	}
	return false, nil
}

func (r *Runner) saveAfterCrash(ctx context.Context, run *execution) error {
	session, err := command.Reopen(r.workdir)
	if err != nil {
		return err
	}
	run.session = session
	backend := run.request.Backend
	if backend.Type != terraform.BackendKubernetes {
		return r.rescue.storeUnsaved(ctx, run)
	}
	lease, err := r.kube.lease(ctx, backend.Namespace, backend.LeaseName())
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the lock: %w", err)
	}
	if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != r.RunID {
		// The run had not taken the lock, or a user has broken or deleted it.
		return r.rescue.storeUnsaved(ctx, run)
	}
	return r.inSecret.readSaved(ctx, run)
}

// saveState saves the state that a lost run left in the working directory. Without
// the module there is no access to a backend other than the default one, so such a
// state is stored in Secrets.
func (r *Runner) saveState(ctx context.Context, run *execution) error {
	if err := r.workdir.Tool.AwaitEnd(ctx, r.workdir.Dir, r.workdir.Others, command.PatienceOf(run.request)); err != nil {
		return err
	}
	var err error
	if run.session, err = command.Reopen(r.workdir); err != nil {
		return err
	}
	run.result.Outcome = terraform.OutcomeSucceeded
	if !run.locked {
		return persist(ctx, "storing a rescued state", func(ctx context.Context) error { return r.rescue.storeUnsaved(ctx, run) })
	}
	if err := r.inSecret.readSaved(ctx, run); err != nil {
		return err
	}
	run.observeState(ctx)
	return nil
}
