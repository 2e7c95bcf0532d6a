package execution

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/sources"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
)

// Scope is the data of one reconcile of a workspace.
type Scope struct {
	*runs.Workspace
	*history.Status
	*sources.Resolved

	// MaxTimeout is the longest timeout of a run, or 0.
	MaxTimeout time.Duration
	// rescued are the names of the states that runs could not save to the backend.
	rescued []string
	// KeepsSlot is set if the workspace waits for a slot in the queue, or has started a
	// run with it.
	KeepsSlot bool
	// Left are the Secrets of the states that runs could not save.
	Left []corev1.Secret
	// TransfersExpire is the time until the next transferred state is deleted, or 0.
	TransfersExpire time.Duration
	// OperationsExpire is the time until the next operation is deleted, or 0.
	OperationsExpire time.Duration
	// Unpruned is set if the cache does not have the newest snapshot yet.
	Unpruned bool
}

// NewScope returns the scope of a workspace of which nothing else is known yet.
func NewScope(w *runs.Workspace) *Scope {
	return &Scope{Workspace: w, Status: &history.Status{Workspace: w}, Resolved: &sources.Resolved{Workspace: w}}
}

// Runner returns the Runner of an executor.
func (r *Reconciler) Runner(s *runs.Workspace, executor infrav1.Executor) (terraform.Runner, error) {
	runner, found := r.Runners[executor]
	if lost := s.LostRun(); !found && lost != nil && lost.Executor() == executor {
		return nil, fault.Stall(infrav1.RunFailedReason, "Run %s was lost and may have left a state in the working directory of executor %s, which is not enabled in this manager: enable it, or run captctl unlock with %s to continue without that state",
			lost.ID, executor, lost.ID)
	}
	if !found {
		return nil, fault.Stall(infrav1.RunFailedReason, "Executor %s is not enabled in this manager: change runner.executor of the WorkspaceProviderConfig", executor)
	}
	return runner, nil
}

// Executor returns the Executor of the workspace's next run. After a run that was
// lost it is that of the lost run, whose working directory may have a state that is
// not saved, unless the user breaks the lock of that run.
func (r *Reconciler) Executor(s *Scope) infrav1.Executor {
	if run := s.LostRun(); run != nil && run.Executor() != "" && !s.IsUnlocked(run.ID) {
		return run.Executor()
	}
	if s.Inputs != nil && s.Inputs.Policy.Executor != "" {
		return s.Inputs.Policy.Executor
	}
	return r.Default
}
