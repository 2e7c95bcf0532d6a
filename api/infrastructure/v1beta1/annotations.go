package v1beta1

// Annotations of workspaces that run in the namespace of a provider config that was lent
// to them. CAPT writes them.
const (
	// HostedInAnnotation is the namespace in which a workspace runs, if it is another one.
	HostedInAnnotation = "capt.appthrust.io/hosted-in"
	// HostedForAnnotation is the workspace of another namespace for which a workspace
	// runs: namespace/name.
	HostedForAnnotation = "capt.appthrust.io/hosted-for"
	// ChangedByGuestAnnotation is the user who changed the workspace for which this one runs
	// last, or deleted it. He must not approve the plan of his change here.
	ChangedByGuestAnnotation = "capt.appthrust.io/changed-by-guest"
)

// StateLineageAnnotation is the lineage of the state of a workspace. CAPT writes it. It survives
// a move to another management cluster and a restore, where the status is lost: the workspace
// then waits for a state instead of starting with an empty one. It proves nothing about a state
// that exists, because every editor can write it.
const StateLineageAnnotation = "capt.appthrust.io/state-lineage"

// Labels of the objects that CAPT creates for a workspace.
const (
	// WorkspaceLabel names the workspace an object belongs to.
	WorkspaceLabel = "capt.appthrust.io/workspace"
	// RunLabel names the run an object belongs to.
	RunLabel = "capt.appthrust.io/run"
	// ComponentLabel is the role of an object: see the Component constants.
	ComponentLabel = "capt.appthrust.io/component"
)
