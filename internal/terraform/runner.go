package terraform

import "context"

// Run identifies a run whose request is stored.
type Run struct {
	// Namespace is the namespace of the run's Secret and of its workspace.
	Namespace string
	// Workspace is the name of the workspace, and WorkspaceUID its UID. The runs of the
	// next workspace of the name have the same IDs.
	Workspace    string
	WorkspaceUID string
	// ID identifies the run.
	ID string
	// Digest is the digest of the request with which the manager created the run. Start
	// refuses another one.
	Digest string
	// Request is the request if the caller has just created the run, else nil. Start then
	// does not read it.
	Request *Request
}

// Liveness is the state of a run's process.
type Liveness string

const (
	// LivenessPending means that the run has not started.
	LivenessPending Liveness = "Pending"
	// LivenessRunning means that the run's process exists.
	LivenessRunning Liveness = "Running"
	// LivenessGone means that the run started and that its process is proven
	// to have ended.
	LivenessGone Liveness = "Gone"
	// LivenessUnknown means that the run started elsewhere and that there is no
	// proof of its end.
	LivenessUnknown Liveness = "Unknown"
)

// Runner executes runs. No method waits for a run. All methods are idempotent,
// because after a crash the caller does not know which calls it made.
type Runner interface {
	// Start starts the run unless it has already started.
	Start(ctx context.Context, run Run) error
	// Observe returns the state of the run's process.
	Observe(ctx context.Context, run Run) (Liveness, error)
	// Stop stops the run. Unless it interrupts the tool, which then saves its state, an apply in
	// progress is completed. The run's result shows how it ended.
	Stop(ctx context.Context, run Run, interrupt bool) error
	// Forget removes everything that is kept for a run that has ended, and nothing of the
	// next workspace of the name: a caller that was suspended may be late.
	Forget(ctx context.Context, run Run) error
	// Remove removes everything that is kept for a deleted workspace, and nothing of the
	// next one of its name.
	Remove(ctx context.Context, workspace WorkspaceRef) error
}

// Retainer is a Runner that keeps a directory for each workspace.
type Retainer interface {
	// Retain leaves what is kept for a deleted workspace to the next one of its name,
	// because the resources are retained. Their state may be saved only there.
	Retain(ctx context.Context, workspace WorkspaceRef) error
}

// Ender is a Runner that finds a run without its record.
type Ender interface {
	// End stops a run whose record was deleted, and reports whether it has ended.
	End(ctx context.Context, run Run) (bool, error)
}

// Explainer is a Runner that knows why a run does not start or end.
type Explainer interface {
	// Explain returns a sentence on what prevents a run from starting or ending,
	// or on what ended a run that left no result. It returns an empty string if
	// nothing is unusual. It is read-only.
	Explain(ctx context.Context, run Run) (string, error)
}
