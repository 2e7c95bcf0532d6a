package workspacetemplateapply

import (
	"context"
	"time"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/cleanup"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
)

func (r *Reconciler) pruneDeleted(ctx context.Context, s *execution.Scope) error {
	return r.cleaner.PruneDeleted(ctx, s.Workspace)
}

// prune deletes what the workspace does not need any more.
func (r *Reconciler) prune(ctx context.Context, s *execution.Scope) (err error) {
	s.Unpruned, err = r.cleaner.Prune(ctx, s.Workspace)
	return err
}

func untilPruned(s *execution.Scope) time.Duration {
	if s.Unpruned {
		return cleanup.PruneInterval
	}
	return 0
}

func (r *Reconciler) pruneTransfers(ctx context.Context, s *execution.Scope) (err error) {
	s.TransfersExpire, err = r.cleaner.PruneTransfers(ctx, s.Workspace)
	return err
}

// whilePaused deletes the transferred states that captctl left: they are confidential.
func (r *Reconciler) whilePaused(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (time.Duration, error) {
	return r.cleaner.PruneTransfers(ctx, &runs.Workspace{Apply: apply, Now: r.Now()})
}
