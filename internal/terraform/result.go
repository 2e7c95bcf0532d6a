package terraform

import (
	"encoding/json"
	"time"
)

// Outcome is how a run ended.
type Outcome string

const (
	// OutcomeSucceeded means that everything asked for was done.
	OutcomeSucceeded Outcome = "Succeeded"
	// OutcomePlanned means that a plan with changes is kept and waits.
	OutcomePlanned Outcome = "Planned"
	// OutcomeNoChanges means that there was nothing to do.
	OutcomeNoChanges Outcome = "NoChanges"
	// OutcomeBlocked means that protection refused the plan.
	OutcomeBlocked Outcome = "Blocked"
	// OutcomeFailed means that a command failed; Class says what may help.
	OutcomeFailed Outcome = "Failed"
	// OutcomeInterrupted means that the run was stopped before its end.
	OutcomeInterrupted Outcome = "Interrupted"
	// OutcomeTimedOut means that the run was stopped by its timeout.
	OutcomeTimedOut Outcome = "TimedOut"
)

// Class says what may help after a failure.
type Class string

const (
	// ClassTransient may pass by itself: try again, with a growing delay.
	ClassTransient Class = "Transient"
	// ClassLockHeld passes when the holder of the state's lock is done.
	ClassLockHeld Class = "LockHeld"
	// ClassTerminal stays until an input changes.
	ClassTerminal Class = "Terminal"
)

// Action is what a plan does to a resource.
type Action string

// The actions of a plan. ActionForget leaves the real resource alone.
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

// Result is how a run ended and what came of it. Its outputs may be secret.
type Result struct {
	RunID     string    `json:"runID"`
	Operation Operation `json:"operation"`
	Outcome   Outcome   `json:"outcome"`
	// Class is set when Outcome is Failed, Interrupted or TimedOut.
	Class Class `json:"class,omitempty"`
	// Blocked lists the protected addresses that the plan would destroy.
	Blocked []string     `json:"blocked,omitempty"`
	Plan    *PlanSummary `json:"plan,omitempty"`
	// Drift lists what differs from the state.
	Drift       []Change          `json:"drift,omitempty"`
	Outputs     map[string]Output `json:"outputs,omitempty"`
	Diagnostics Diagnostics       `json:"diagnostics,omitempty"`
	State       StateInfo         `json:"state,omitzero"`
	// Lock is who held the lock when Class is LockHeld.
	Lock *LockInfo `json:"lock,omitempty"`
	// StalePlan is set when the state changed after the plan was made.
	StalePlan bool `json:"stalePlan,omitempty"`
	// StateTooLarge is set when the backend cannot hold the state.
	StateTooLarge bool `json:"stateTooLarge,omitempty"`
	// StateMissing is set when a state that is known to exist is not there.
	StateMissing bool `json:"stateMissing,omitempty"`
	// SnapshotMissing is set when there is no snapshot to restore.
	SnapshotMissing bool `json:"snapshotMissing,omitempty"`
	// InvalidInputs is set when the module does not take what it is given.
	InvalidInputs string `json:"invalidInputs,omitempty"`
	// Snapshot is where the state before the change is kept.
	Snapshot string `json:"snapshot,omitempty"`
	// LockFile is the dependency lock file to give to the next run.
	LockFile   []byte    `json:"lockFile,omitempty"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	// Phases are the phases gone through, in order, with their durations.
	Phases []PhaseTime `json:"phases,omitempty"`
}

// PhaseTime is how long a phase took.
type PhaseTime struct {
	Name     Phase         `json:"name"`
	Duration time.Duration `json:"duration"`
}

// PlanSummary is what a plan would do.
type PlanSummary struct {
	ID      string   `json:"id,omitempty"`
	Add     int      `json:"add"`
	Change  int      `json:"change"`
	Destroy int      `json:"destroy"`
	Import  int      `json:"import,omitempty"`
	Forget  int      `json:"forget,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	// OutputsOnly is set when applying changes outputs and no resource.
	OutputsOnly bool `json:"outputsOnly,omitempty"`
}

// Change is what a plan does to one resource, or how one differs from its state.
type Change struct {
	Address string `json:"address"`
	Action  Action `json:"action"`
	Type    string `json:"type,omitempty"`
	// PreviousAddress is set when the resource moves to Address.
	PreviousAddress string `json:"previousAddress,omitempty"`
	Reason          string `json:"reason,omitempty"`
}

// Output is a value of the root module. Sensitive ones go into Secrets only.
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
}

// LockInfo is who holds the lock of a state, in the form that OpenTofu and
// Terraform store it.
type LockInfo struct {
	ID        string `json:"ID"`
	Operation string `json:"Operation"`
	Info      string `json:"Info"`
	Who       string `json:"Who"`
	Version   string `json:"Version"`
	Created   string `json:"Created"`
	Path      string `json:"Path"`
}
