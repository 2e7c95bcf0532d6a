package runner

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/terraform/record"
)

// interruption returns a channel that is closed when the run is stopped and is to interrupt its
// tool at once: because a user has canceled it, or deletes the workspace. Any other stop comes
// from a node or a manager that ends.
func (s *runSecret) interruption(ctx context.Context) (interrupted <-chan struct{}, release func()) {
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		for !s.isInterrupted(watching) {
			select {
			case <-watching.Done():
				return
			case <-time.After(reportInterval):
			}
		}
		close(closed)
	})
	return closed, func() {
		stop()
		cancel()
	}
}

// isInterrupted reports whether the tool is to be interrupted at once. A run whose record is
// deleted belongs to a workspace or a namespace that is deleted.
func (s *runSecret) isInterrupted(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	secret, err := s.kube.secret(ctx, s.namespace, record.SecretName(s.id))
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	return s.uid != "" && secret.UID != s.uid || record.Interrupted(secret)
}

// applyContext returns the context of an apply. Neither a stop of the run nor its timeout ends
// it: an interrupted tool gives up the resources that it creates, and the next plan would
// replace them. A run without a timeout has nothing else that ends it.
func (run *execution) applyContext(ctx context.Context) (applying context.Context, done func()) {
	limit := run.request.Limit()
	if limit <= 0 || ctx.Err() != nil {
		return context.WithCancel(ctx)
	}
	deadline := run.result.StartedAt.Add(limit)
	applying, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	warned := context.AfterFunc(ctx, func() {
		cause := "The run is stopped"
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			cause = "Warning: the run exceeds its timeout of " + run.request.Timeout.String()
			run.report.exceedsTimeout(deadline)
		}
		run.printf("%s. The apply in progress is completed first. It is interrupted at %s, or when the run is canceled", cause, deadline.UTC().Format(time.RFC3339))
	})
	go func() {
		select {
		case <-run.interrupted:
			cancel()
		case <-applying.Done():
		}
	}()
	return applying, func() {
		warned()
		cancel()
	}
}
