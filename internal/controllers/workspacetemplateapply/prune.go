package workspacetemplateapply

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/record"
)

// prune deletes what is beyond the limits: old runs with their logs, plans that
// nobody can approve any more, old snapshots.
func (r *Reconciler) prune(ctx context.Context, s *scope) error {
	if s.current() != nil {
		return nil
	}
	if err := r.pruneRuns(ctx, s); err != nil {
		return err
	}
	if err := r.prunePlans(ctx, s); err != nil {
		return err
	}
	return r.pruneSnapshots(ctx, s)
}

// pruneRuns keeps the newest runs, and the one whose outputs are in use.
func (r *Reconciler) pruneRuns(ctx context.Context, s *scope) error {
	keep := 10
	if s.apply.Spec.HistoryLimit != nil {
		keep = int(*s.apply.Spec.HistoryLimit)
	}
	if len(s.runs) <= keep {
		return nil
	}
	inUse, _, err := s.latestOutputs()
	if err != nil {
		return err
	}
	for _, run := range s.runs[keep:] {
		if inUse != nil && run.id == inUse.id {
			continue
		}
		if runner, found := r.Runners[run.executor()]; found {
			if err := runner.Forget(ctx, run.ref()); err != nil {
				return fmt.Errorf("forgetting run %s: %w", run.id, err)
			}
		}
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, run.secret)); err != nil {
			return fmt.Errorf("deleting run %s: %w", run.id, err)
		}
	}
	return nil
}

func (r *Reconciler) prunePlans(ctx context.Context, s *scope) error {
	plans, err := r.secrets(ctx, s, record.ComponentPlan)
	if err != nil {
		return err
	}
	for i := range plans {
		plan := s.apply.Status.Plan
		waiting := plan != nil && plan.Waiting != nil && *plan.Waiting && strings.HasPrefix(plans[i].Name, "capt-"+plan.ID+"-")
		if waiting {
			continue
		}
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, &plans[i])); err != nil {
			return fmt.Errorf("deleting plan %s: %w", plans[i].Name, err)
		}
	}
	return nil
}

// pruneSnapshots keeps the newest snapshots with all their parts.
func (r *Reconciler) pruneSnapshots(ctx context.Context, s *scope) error {
	secrets, err := r.secrets(ctx, s, record.ComponentSnapshot)
	if err != nil {
		return err
	}
	keep := 5
	if s.apply.Spec.SnapshotLimit != nil {
		keep = int(*s.apply.Spec.SnapshotLimit)
	}
	byRun := map[string][]corev1.Secret{}
	var runs []string
	for _, secret := range secrets {
		run := secret.Labels[infrav1.RunLabel]
		if _, seen := byRun[run]; !seen {
			runs = append(runs, run)
		}
		byRun[run] = append(byRun[run], secret)
	}
	slices.SortFunc(runs, func(a, b string) int {
		x, _ := runNumber(a)
		y, _ := runNumber(b)
		return int(y - x)
	})
	for _, run := range runs[min(keep, len(runs)):] {
		for i := range byRun[run] {
			if err := client.IgnoreNotFound(r.Client.Delete(ctx, &byRun[run][i])); err != nil {
				return fmt.Errorf("deleting snapshot %s: %w", byRun[run][i].Name, err)
			}
		}
	}
	return nil
}
