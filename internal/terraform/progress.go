package terraform

import "time"

// Phase is where a run is.
type Phase string

// The phases of a run, in the order in which it goes through them.
const (
	PhasePreparing    Phase = "Preparing"
	PhaseInitialising Phase = "Initialising"
	PhasePlanning     Phase = "Planning"
	PhaseApplying     Phase = "Applying"
	PhaseDestroying   Phase = "Destroying"
	PhaseFinishing    Phase = "Finishing"
)

// Progress is how far a run has come.
type Progress struct {
	Phase Phase `json:"phase"`
	// Done of Total resources are finished. While planning, Done counts the
	// resources that were refreshed, and Total is zero when unknown.
	Done  int `json:"done"`
	Total int `json:"total"`
	// Current are the resources being worked on, the longest at work first.
	Current   []ResourceProgress `json:"current,omitempty"`
	UpdatedAt time.Time          `json:"updatedAt,omitzero"`
}

// ResourceProgress is one resource being worked on.
type ResourceProgress struct {
	Address string    `json:"address"`
	Action  Action    `json:"action"`
	Since   time.Time `json:"since"`
}
