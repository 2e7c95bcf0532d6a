package history

import (
	"time"

	"github.com/appthrust/capt/internal/terraform"
)

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

// startAfter makes a run start after its Secret was created, and end as much later. The clock
// of its node may be behind that of the API server: retries would start at once.
func startAfter(result *terraform.Result, created time.Time) {
	if behind := created.Sub(result.StartedAt); behind > 0 {
		result.StartedAt, result.FinishedAt = created, result.FinishedAt.Add(behind)
	}
}

// limitTimes makes a run end after its start and before now. The run reports when it started and
// ended, and retries and the next check of drift follow from that: they would never start, or
// always at once.
func limitTimes(result *terraform.Result, now time.Time) {
	if result.FinishedAt.Before(result.StartedAt) {
		result.FinishedAt = result.StartedAt
	}
	if result.FinishedAt.After(now) {
		result.FinishedAt = now
	}
	if result.StartedAt.After(result.FinishedAt) {
		result.StartedAt = result.FinishedAt
	}
}

// Duration returns how long a run took.
func Duration(result *terraform.Result) time.Duration {
	return result.FinishedAt.Sub(result.StartedAt).Round(time.Millisecond)
}
