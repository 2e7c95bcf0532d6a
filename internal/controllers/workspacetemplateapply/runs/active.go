package runs

import (
	"context"
	"sync"
	"time"

	"github.com/appthrust/capt/internal/terraform/record"
)

// Numbers takes the Numbers of runs. No two runs of a workspace have the same number, and no
// run starts beside another one.
type Numbers struct {
	*Store
	Runners executors
	// unused has the numbers of runs that could not be created, and active the activeRun of
	// each workspace, by its UID.
	Unused, Active *sync.Map
}

// ActiveRun is the latest run of a workspace that this process has started or attended.
type ActiveRun struct {
	Number int64
	// seen is when the run was last known not to have ended.
	Seen time.Time
}

// SetActive remembers that a run has not ended yet.
func (r *Numbers) SetActive(s *Workspace, number int64) {
	r.Active.Store(s.Apply.UID, ActiveRun{Number: number, Seen: s.Now})
}

// LastActive returns the latest run that this process has started or attended. Its number is 0
// if there is none.
func (r *Numbers) LastActive(s *Workspace) ActiveRun {
	if run, found := r.Active.Load(s.Apply.UID); found {
		return run.(ActiveRun)
	}
	return ActiveRun{}
}

// LacksActive reports whether the cache does not have the latest run that this process has
// started, and which has not ended. The status may be as old as the cache.
func (r *Numbers) LacksActive(ctx context.Context, s *Workspace) bool {
	active := r.LastActive(s)
	if active.Number == 0 || len(s.Runs) > 0 && s.Runs[0].Number >= active.Number {
		return false
	}
	live, err := r.liveNumber(ctx, s, active.Number)
	if err != nil || live != nil && !record.Finished(live) {
		return true
	}
	// A user has deleted it, or it was not created.
	r.Active.Delete(s.Apply.UID)
	return false
}
