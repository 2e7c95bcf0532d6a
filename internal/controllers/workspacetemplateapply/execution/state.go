package execution

import (
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
)

// knownState returns what the next run has to find in its backend.
func (s *Scope) knownState() terraform.KnownState {
	known := terraform.KnownState{Adopt: s.Apply.Annotations[infrav1.AdoptStateAnnotation], Expected: s.ExpectedLineage()}
	state := s.Apply.Status.State
	if state == nil {
		return known
	}
	// If the state is in another backend and the user has not moved it, it has no
	// resources. Its version distinguishes it from earlier ones nevertheless.
	known.StateInfo, known.Unconfirmed = runs.StateInfo(state), state.Confirmation == infrav1.StateUnconfirmed
	backend := runs.BackendName(s.Inputs.Request.Backend)
	known.Moved = state.Backend != "" && runs.BackendOf(state) != backend && s.Apply.Annotations[infrav1.BackendMovedAnnotation] == backend
	return known
}

// from returns the part of a request that describes the backend which has the state.
func (s *Scope) from() *terraform.Request {
	from := s.MoveFrom.Request
	from.Module = terraform.Module{}
	from.BreakLock = s.Apply.Annotations[infrav1.ForceUnlockAnnotation]
	from.Rescued = s.rescued
	state := s.Apply.Status.State
	from.State = terraform.KnownState{
		StateInfo: runs.StateInfo(state), Unconfirmed: state.Confirmation == infrav1.StateUnconfirmed,
		Adopt: s.Apply.Annotations[infrav1.AdoptStateAnnotation],
	}
	return &from
}
