package v1beta1

// Annotations by which a user requests an operation on a workspace.
const (
	// RunRequestedAnnotation requests a run; each new value requests another one.
	RunRequestedAnnotation = "capt.appthrust.io/run-requested-at"
	// CheckDriftAnnotation requests a drift check regardless of the drift policy;
	// each new value requests another one. The check changes nothing.
	CheckDriftAnnotation = "capt.appthrust.io/check-drift"
	// CancelRunAnnotation names the run to stop gracefully.
	CancelRunAnnotation = "capt.appthrust.io/cancel-run"
	// AllowDestroyAnnotation lists, comma-separated, the addresses of protected
	// resources that a user allows to be destroyed or replaced.
	AllowDestroyAnnotation = "capt.appthrust.io/allow-destroy"
	// RejectPlanAnnotation names a saved plan that a user rejected.
	RejectPlanAnnotation = "capt.appthrust.io/reject-plan"
	// CommentAnnotation is what a user wrote about a plan that is approved or rejected in
	// the same request: the ID of the plan, a space, and the text. See CommentOf.
	CommentAnnotation = "capt.appthrust.io/comment"
	// ForceUnlockAnnotation names the lock to break. It is refused while the lock's
	// holder is alive.
	ForceUnlockAnnotation = "capt.appthrust.io/force-unlock"
	// BackendMovedAnnotation confirms that a user has moved the state to the backend
	// of the given type.
	BackendMovedAnnotation = "capt.appthrust.io/backend-moved"
	// AdoptStateAnnotation names the version of a state that the workspace shall use
	// although it is not its own or is outdated: lineage, slash, serial.
	AdoptStateAnnotation = "capt.appthrust.io/adopt-state"
	// RestoreSnapshotAnnotation names the state snapshot to restore. With an at sign and
	// the UID of the workspace after the name, the request is ignored if the workspace is
	// created again from a backup.
	RestoreSnapshotAnnotation = "capt.appthrust.io/restore-snapshot"
	// StateCommandAnnotation is a command that reads or changes the state, as JSON
	// with the fields id, command (pull, push, list, show, mv or rm), args, input and
	// force. Each id is executed once.
	StateCommandAnnotation = "capt.appthrust.io/state-command"
	// MoveStateAnnotation requests to move the state from the backend of one provider
	// config to that of the current one, as JSON with the fields id, from and to. The
	// names of the provider configs are empty for none.
	MoveStateAnnotation = "capt.appthrust.io/move-state"
	// OneShotAnnotation requests a run with other options of its plan, once, as JSON with
	// the fields id, uid (of the workspace), and one of replace, target, refreshOnly and
	// import; with planOnly nothing is applied, and with hold the plan waits for approval.
	// Each id is executed once.
	OneShotAnnotation = "capt.appthrust.io/one-shot"
	// ShellAnnotation says that a user works with the state by hand, as JSON with the fields
	// id, uid (of the workspace), host and reason. No run starts until it is removed.
	ShellAnnotation = "capt.appthrust.io/shell"
)

// Annotations of workspaces that run in the namespace of a provider config that was lent
// to them. CAPT writes them.
const (
	// HostedInAnnotation is the namespace in which a workspace runs, if it is another one.
	HostedInAnnotation = "capt.appthrust.io/hosted-in"
	// HostedForAnnotation is the workspace of another namespace for which a workspace
	// runs: namespace/name.
	HostedForAnnotation = "capt.appthrust.io/hosted-for"
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
