package workspacetemplateapply

import (
	"context"
	"sync"
	"time"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// numbers takes the numbers of runs. No two runs of a workspace have the same number, and no
// run starts beside another one.
type numbers struct {
	*store
	Runners executors
	// unused has the numbers of runs that could not be created, and active the activeRun of
	// each workspace, by its UID.
	unused, active *sync.Map
}

// activeRun is the latest run of a workspace that this process has started or attended.
type activeRun struct {
	number int64
	// seen is when the run was last known not to have ended.
	seen time.Time
}

// setActive remembers that a run has not ended yet.
func (r *numbers) setActive(s *workspace, number int64) {
	r.active.Store(s.apply.UID, activeRun{number: number, seen: s.now})
}

// lastActive returns the latest run that this process has started or attended. Its number is 0
// if there is none.
func (r *numbers) lastActive(s *workspace) activeRun {
	if run, found := r.active.Load(s.apply.UID); found {
		return run.(activeRun)
	}
	return activeRun{}
}

// lacksActive reports whether the cache does not have the latest run that this process has
// started, and which has not ended. The status may be as old as the cache.
func (r *numbers) lacksActive(ctx context.Context, s *workspace) bool {
	active := r.lastActive(s)
	if active.number == 0 || len(s.runs) > 0 && s.runs[0].number >= active.number {
		return false
	}
	live, err := r.liveNumber(ctx, s, active.number)
	if err != nil || live != nil && !record.Finished(live) {
		return true
	}
	// A user has deleted it, or it was not created.
	r.active.Delete(s.apply.UID)
	return false
}

// maxSkew is how much a run may end before the manager saw it running. Caches are a little
// behind.
const maxSkew = time.Minute

// endAfter makes a run end now if it says that it ended before it was last seen running: the
// clock of its node is behind. Retries would start at once.
func endAfter(result *terraform.Result, seen, now time.Time) {
	if seen.Sub(result.FinishedAt) > maxSkew {
		result.StartedAt, result.FinishedAt = result.StartedAt.Add(now.Sub(result.FinishedAt)), now
	}
}
