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
// nobody can approve any more, old snapshots. It comes before anything that may
// fail: a workspace that fails for weeks leaves more runs than any other.
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

func (r *Reconciler) pruneRuns(ctx context.Context, s *scope) error {
	surplus, err := s.surplusRuns()
	if err != nil {
		return err
	}
	for _, run := range surplus {
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

// surplusRuns are all but the newest runs, and the one whose outputs are in use.
func (s *scope) surplusRuns() ([]*runRecord, error) {
	keep := 10
	if s.apply.Spec.HistoryLimit != nil {
		keep = int(*s.apply.Spec.HistoryLimit)
	}
	if len(s.runs) <= keep {
		return nil, nil
	}
	inUse, _, err := s.latestOutputs()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(s.runs[keep:]), func(run *runRecord) bool {
		return inUse != nil && run.id == inUse.id
	}), nil
}

func (r *Reconciler) prunePlans(ctx context.Context, s *scope) error {
	plans, err := r.secrets(ctx, s, record.ComponentPlan)
	if err != nil {
		return err
	}
	for i := range plans {
		if s.waits(plans[i].Name) {
			continue
		}
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, &plans[i])); err != nil {
			return fmt.Errorf("deleting plan %s: %w", plans[i].Name, err)
		}
	}
	return nil
}

// waits tells whether a Secret is part of the plan that waits for a person.
func (s *scope) waits(name string) bool {
	plan := s.apply.Status.Plan
	return plan != nil && plan.Waiting != nil && *plan.Waiting && strings.HasPrefix(name, "capt-"+plan.ID+"-")
}

func (r *Reconciler) pruneSnapshots(ctx context.Context, s *scope) error {
	secrets, err := r.secrets(ctx, s, record.ComponentSnapshot)
	if err != nil {
		return err
	}
	keep := 5
	if s.apply.Spec.SnapshotLimit != nil {
		keep = int(*s.apply.Spec.SnapshotLimit)
	}
	for _, secret := range surplusSnapshots(secrets, keep) {
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, &secret)); err != nil {
			return fmt.Errorf("deleting snapshot %s: %w", secret.Name, err)
		}
	}
	return nil
}

// surplusSnapshots are all parts of all but the newest snapshots.
func surplusSnapshots(secrets []corev1.Secret, keep int) []corev1.Secret {
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
	var surplus []corev1.Secret
	for _, run := range runs[min(keep, len(runs)):] {
		surplus = append(surplus, byRun[run]...)
	}
	return surplus
}
