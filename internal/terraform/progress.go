package terraform

import "time"

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
}

// ResourceProgress is a resource in progress.
type ResourceProgress struct {
	Address string    `json:"address"`
	Action  Action    `json:"action"`
	Since   time.Time `json:"since"`
}
