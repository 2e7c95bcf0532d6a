package terraform

import "context"

// Run names a run whose request is stored, for whoever carries it out.
type Run struct {
	// Namespace is where the run's Secret and its workspace are.
	Namespace string
	// Workspace is the name of the workspace.
	Workspace string
	// ID identifies the run.
	ID string
	// Pod is what the job executor needs to know beyond the request.
	Pod PodSettings
}

// Liveness is whether a run's process exists.
type Liveness string

const (
	// LivenessPending means that nothing of the run has begun.
	LivenessPending Liveness = "Pending"
	// LivenessRunning means that the run's process exists.
	LivenessRunning Liveness = "Running"
	// LivenessGone means that the run began and its process is proven gone.
	LivenessGone Liveness = "Gone"
	// LivenessUnknown means that the run began elsewhere and nothing proves
	// that it ended.
	LivenessUnknown Liveness = "Unknown"
)

// Runner carries out runs. No method waits for a run, and each may be called
// again at any time with the same effect: after a crash the caller does not
// know which calls it made.
type Runner interface {
	// Start begins the run unless it has begun already.
	Start(ctx context.Context, run Run) error
	// Observe tells whether the run's process exists.
	Observe(ctx context.Context, run Run) (Liveness, error)
	// Stop asks the run to end gracefully; the result says how it ended.
	Stop(ctx context.Context, run Run) error
	// Forget removes what is kept for a run that has ended.
	Forget(ctx context.Context, run Run) error
	// Remove removes what is kept for a workspace that is gone.
	Remove(ctx context.Context, workspace WorkspaceRef) error
}

// Explainer is a Runner that knows more of a run than whether it is alive.
type Explainer interface {
	// Explain says in a sentence what keeps a run from beginning or from ending,
	// or what ended one that is gone without a result; nothing when all is as
	// usual. It changes nothing.
	Explain(ctx context.Context, run Run) (string, error)
}
