package cleanup

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform/record"
)

// transferLifetime is how long a state that a user pulled or pushed may exist. captctl
// deletes it after the command.
const transferLifetime = time.Hour

// PruneTransfers deletes the transferred states that captctl left, whatever the
// workspace does. It returns the time until the next one is deleted, or 0.
func (r *Cleaner) PruneTransfers(ctx context.Context, s *runs.Workspace) (next time.Duration, err error) {
	transfers, err := r.Secrets(ctx, s, record.ComponentTransfer)
	if err != nil {
		return 0, err
	}
	var expired []corev1.Secret
	for i := range transfers {
		wait := transfers[i].CreationTimestamp.Add(transferLifetime).Sub(s.Now)
		switch {
		case wait <= 0:
			expired = append(expired, transfers[i])
		case next == 0 || wait < next:
			next = max(PruneInterval, wait)
		}
	}
	return next, r.DeleteAll(ctx, s, expired)
}
