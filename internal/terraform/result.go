package terraform

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// Outcome is the outcome of a run.
type Outcome string

const (
	// OutcomeSucceeded means that the operation is complete.
	OutcomeSucceeded Outcome = "Succeeded"
	// OutcomePlanned means that a plan with changes is saved and not yet applied.
	OutcomePlanned Outcome = "Planned"
	// OutcomeNoChanges means that no change was necessary.
	OutcomeNoChanges Outcome = "NoChanges"
	// OutcomeBlocked means that the plan would destroy a protected resource.
	OutcomeBlocked Outcome = "Blocked"
	// OutcomeDenied means that a policy denies the plan.
	OutcomeDenied Outcome = "Denied"
	// OutcomeFailed means that a command failed. Class is the kind of the failure.
	OutcomeFailed Outcome = "Failed"
	// OutcomeInterrupted means that the run was stopped before it completed.
	OutcomeInterrupted Outcome = "Interrupted"
	// OutcomeTimedOut means that the run was stopped because of its timeout.
	OutcomeTimedOut Outcome = "TimedOut"
)

// Class is the kind of a failure. It determines when to retry.
type Class string

const (
	// ClassTransient may resolve itself: retry with backoff.
	ClassTransient Class = "Transient"
	// ClassLockHeld lasts until the holder of the state's lock releases it.
	ClassLockHeld Class = "LockHeld"
	// ClassTerminal lasts until an input changes.
	ClassTerminal Class = "Terminal"
)

// Action is what a plan does to a resource.
type Action string

// ReasonNotFound is the reason of a change of a resource that the refresh before the plan
// did not find. The change creates it again, or forgets it.
const ReasonNotFound = "not_found"

// ReasonTainted is the reason of a change of a resource whose creation did not complete.
const ReasonTainted = "tainted"

// The actions of a plan. ActionForget does not change the real resource.
const (
	ActionCreate  Action = "create"
	ActionUpdate  Action = "update"
	ActionReplace Action = "replace"
	ActionDelete  Action = "delete"
	ActionRead    Action = "read"
	ActionForget  Action = "forget"
	ActionImport  Action = "import"
	ActionMove    Action = "move"
)

// Result is the result of a run. Its outputs may be secret.
type Result struct {
	RunID     string    `json:"runID"`
	Operation Operation `json:"operation"`
	Outcome   Outcome   `json:"outcome"`
	// Class is set if Outcome is Failed, Interrupted or TimedOut.
	Class Class `json:"class,omitempty"`
	// Blocked lists the protected addresses that the plan would destroy or replace, or
	// that the refresh did not find.
	Blocked []string `json:"blocked,omitempty"`
	// Violations are the rules of policies that the plan violates, the strictest first.
	Violations []PolicyViolation `json:"violations,omitempty"`
	Plan       *PlanSummary      `json:"plan,omitempty"`
	// Drift lists the resources that differ from the state.
	Drift       []Change          `json:"drift,omitempty"`
	Outputs     map[string]Output `json:"outputs,omitempty"`
	Diagnostics Diagnostics       `json:"diagnostics,omitempty"`
	State       StateInfo         `json:"state,omitzero"`
	// Unclaimed is set if no runner has claimed the run, so that it changed nothing.
	Unclaimed bool `json:"unclaimed,omitempty"`
	// Withdrawn is set if the manager withdrew the run before it started, because the
	// workspace would not start it any more.
	Withdrawn bool `json:"withdrawn,omitempty"`
	// StateUncertain is set if the run may have changed the state after State was
	// read.
	StateUncertain bool `json:"stateUncertain,omitempty"`
	// Lock is the lock of the other holder if Class is LockHeld.
	Lock *LockInfo `json:"lock,omitempty"`
	// LockLeft is set if the tool may have left its lock in the backend, or an empty state
	// that is not marked as free.
	LockLeft bool `json:"lockLeft,omitempty"`
	// StalePlan is set if the state changed after the plan was created.
	StalePlan bool `json:"stalePlan,omitempty"`
	// StateTooLarge is set if the state exceeds the backend's size limit.
	StateTooLarge bool `json:"stateTooLarge,omitempty"`
	// OutputsTooLarge is set if the outputs do not fit into the run's Secret. They are
	// omitted.
	OutputsTooLarge bool `json:"outputsTooLarge,omitempty"`
	// StateProblem is set if the state in the backend is not the known one.
	StateProblem StateProblem `json:"stateProblem,omitempty"`
	// Rescued is the name of the state that the run could not save to the backend.
	Rescued string `json:"rescued,omitempty"`
	// Saved are the names of the rescued states that the run saved to the backend.
	Saved []string `json:"saved,omitempty"`
	// NotMerged are the rescued states that do not continue the saved one, with the number of
	// resources that the saved one does not have, or -1 if it is not known.
	NotMerged map[string]int `json:"notMerged,omitempty"`
	// SnapshotMissing is set if the snapshot to restore was not found.
	SnapshotMissing bool `json:"snapshotMissing,omitempty"`
	// InvalidInputs describes the inputs that the module does not accept.
	InvalidInputs string `json:"invalidInputs,omitempty"`
	// Tool is the tool that executed the run. It is empty if none started.
	Tool Tool `json:"tool,omitzero"`
	// ToolNotAvailable is set if the runner does not have the required tool.
	ToolNotAvailable bool `json:"toolNotAvailable,omitempty"`
	// Snapshot is the name of the snapshot of the state before the change.
	Snapshot string `json:"snapshot,omitempty"`
	// CommandOutput is the output of a StateCommand that changes the state. That of
	// other commands is stored in Secrets, because it may be large and confidential.
	CommandOutput string `json:"commandOutput,omitempty"`
	// OutputDigest is the SHA-256 sum of the output that is stored in Secrets.
	OutputDigest string `json:"outputDigest,omitempty"`
	// Module is the fetched content of the module, or nil if nothing was fetched.
	Module *ModuleContent `json:"module,omitempty"`
	// LockFile is the dependency lock file for the next run.
	LockFile   []byte    `json:"lockFile,omitempty"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	// Phases are the phases of the run and their durations, in order.
	Phases []PhaseTime `json:"phases,omitempty"`
}

// ChangesState reports whether the run started to change the state, with or without
// the resources.
func (r *Result) ChangesState() bool {
	return slices.ContainsFunc(r.Phases, func(p PhaseTime) bool {
		return p.Name == PhaseApplying || p.Name == PhaseDestroying || p.Name == PhaseWritingState
	})
}

// PhaseTime is when a phase started and how long it took.
type PhaseTime struct {
	Name      Phase         `json:"name"`
	StartedAt time.Time     `json:"startedAt,omitzero"`
	Duration  time.Duration `json:"duration"`
}

// PlanSummary is a summary of a plan.
type PlanSummary struct {
	ID      string `json:"id,omitempty"`
	Add     int    `json:"add"`
	Change  int    `json:"change"`
	Destroy int    `json:"destroy"`
	Import  int    `json:"import,omitempty"`
	Forget  int    `json:"forget,omitempty"`
	// Refresh is how many resources of the state a plan updates that only refreshes it.
	Refresh int      `json:"refresh,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	// Omitted is the number of changes that do not fit into the run's Secret.
	Omitted int `json:"omitted,omitempty"`
	// OutputsOnly is set if the plan changes outputs but no resource.
	OutputsOnly bool `json:"outputsOnly,omitempty"`
}

// Change is the change that a plan makes to a resource, or a resource's
// difference from its state.
type Change struct {
	Address string `json:"address"`
	Action  Action `json:"action"`
	Type    string `json:"type,omitempty"`
	// PreviousAddress is set if the resource moves to Address.
	PreviousAddress string `json:"previousAddress,omitempty"`
	Reason          string `json:"reason,omitempty"`
}

// Output is an output of the root module. A sensitive output is written only to
// Secrets.
type Output struct {
	Value     json.RawMessage `json:"value,omitempty"`
	Type      json.RawMessage `json:"type,omitempty"`
	Sensitive bool            `json:"sensitive,omitempty"`
}

// StateInfo identifies a version of the state.
type StateInfo struct {
	Lineage   string `json:"lineage,omitempty"`
	Serial    uint64 `json:"serial,omitempty"`
	Resources int    `json:"resources,omitempty"`
	// Owner names the workspace whose first run wrote a state that has no resources
	// yet. It is UnknownOwner if another run has applied something.
	Owner string `json:"-"`
}

// LockInfo describes the lock of a state in the format of OpenTofu and Terraform.
type LockInfo struct {
	ID        string `json:"ID"`
	Operation string `json:"Operation"`
	Info      string `json:"Info"`
	Who       string `json:"Who"`
	Version   string `json:"Version"`
	Created   string `json:"Created"`
	Path      string `json:"Path"`
}

// Phase is a phase of a run.
type Phase string

// The phases of a run, in their order.
const (
	PhasePreparing    Phase = "Preparing"
	PhaseInitialising Phase = "Initialising"
	PhasePlanning     Phase = "Planning"
	PhaseApplying     Phase = "Applying"
	PhaseDestroying   Phase = "Destroying"
	// PhaseWritingState is the phase of a run that changes only the state.
	PhaseWritingState Phase = "WritingState"
)

// Progress is the progress of a run.
type Progress struct {
	Phase Phase `json:"phase"`
	// Done is the number of finished resources out of Total. During planning, Done
	// counts refreshed resources and Total is zero if it is unknown.
	Done  int `json:"done"`
	Total int `json:"total"`
	// Current are the resources in progress, in the order in which they started.
	Current   []ResourceProgress `json:"current,omitempty"`
	UpdatedAt time.Time          `json:"updatedAt,omitzero"`
	// InterruptAt is when the tool is interrupted. It is set if the run exceeds its timeout.
	InterruptAt time.Time `json:"interruptAt,omitzero"`
}

// ResourceProgress is a resource in progress.
type ResourceProgress struct {
	Address string    `json:"address"`
	Action  Action    `json:"action"`
	Since   time.Time `json:"since"`
}

// Selection are selected outputs of a module: their names in the module by those under
// which they are returned. A nil Selection selects all.
type Selection map[string]string

// Sources returns the names of the selected outputs in the module.
func (s Selection) Sources() []string { return slices.Sorted(maps.Values(s)) }

// Select returns the selected ones of outputs, or of what is known about them, under the
// names of the selection.
func Select[T any](s Selection, outputs map[string]T) map[string]T {
	if s == nil {
		return outputs
	}
	selected := map[string]T{}
	for as, name := range s {
		if output, found := outputs[name]; found {
			selected[as] = output
		}
	}
	return selected
}
