package workspacetemplateapply

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/record"
)

// defaultSnapshotLimit is the default of spec.snapshotLimit.
const defaultSnapshotLimit = 5

// cleaner deletes what a workspace does not need any more.
type cleaner struct {
	*numbers
	tracker *tracker
	counted *sync.Map
}

// prune deletes old runs with their logs, plans that cannot be approved any more,
// module content that no run uses, and old snapshots. It runs before the steps that may fail: a workspace that
// fails for weeks has more runs than any other.
func (r *cleaner) prune(ctx context.Context, s *workspace) (unpruned bool, err error) {
	if s.current() != nil {
		return false, nil
	}
	if err := r.pruneRuns(ctx, s); err != nil {
		return false, err
	}
	if err := r.prunePlans(ctx, s); err != nil {
		return false, err
	}
	modules, err := r.secrets(ctx, s, record.ComponentModule)
	if err != nil {
		return false, err
	}
	if err := r.deleteAll(ctx, s, surplusModules(s.workspaceRef(), modules, s.apply.Status.Module)); err != nil {
		return false, err
	}
	snapshots, err := r.secrets(ctx, s, record.ComponentSnapshot)
	if err != nil {
		return false, err
	}
	if err := r.pruneMoved(ctx, s); err != nil {
		return false, err
	}
	return isUnpruned(s, snapshots), r.deleteAll(ctx, s, surplusSnapshots(snapshots, snapshotLimit(s.apply)))
}

const (
	// pruneInterval is how often the cache is checked for the newest snapshot, for
	// pruneTimeout after the run. Snapshots have no watch.
	pruneInterval = 5 * time.Second
	pruneTimeout  = time.Minute
)

// isUnpruned reports whether the newest run has just taken a snapshot that the cache
// does not have yet.
func isUnpruned(s *workspace, snapshots []corev1.Secret) bool {
	if len(s.runs) == 0 {
		return false
	}
	result := s.runs[0].result()
	if result == nil || result.Snapshot == "" || s.now.Sub(result.FinishedAt).Abs() > pruneTimeout {
		return false
	}
	return !slices.ContainsFunc(snapshots, func(secret corev1.Secret) bool { return secret.Name == result.Snapshot })
}

// pruneDeleted deletes what a workspace that is being deleted does not need any more.
func (r *cleaner) pruneDeleted(ctx context.Context, s *workspace) error {
	for _, prune := range []func(context.Context, *workspace) error{r.pruneRuns, r.prunePlans, r.pruneMoved} {
		if err := prune(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) pruneDeleted(ctx context.Context, s *scope) error {
	return r.cleaner.pruneDeleted(ctx, s.workspace)
}

// prune deletes what the workspace does not need any more.
func (r *Reconciler) prune(ctx context.Context, s *scope) (err error) {
	s.unpruned, err = r.cleaner.prune(ctx, s.workspace)
	return err
}

func untilPruned(s *scope) time.Duration {
	if s.unpruned {
		return pruneInterval
	}
	return 0
}

// prunePlans deletes the plans that cannot be approved any more, unless a run may be
// storing or applying one.
func (r *cleaner) prunePlans(ctx context.Context, s *workspace) error {
	if s.current() != nil {
		return nil
	}
	plans, err := r.secrets(ctx, s, record.ComponentPlan)
	if err != nil {
		return err
	}
	return r.deleteAll(ctx, s, surplusPlans(plans, s.apply.Status.Plan))
}

// pruneRuns deletes old runs. The destruction of a workspace may take many runs, too.
func (r *cleaner) pruneRuns(ctx context.Context, s *workspace) error {
	for _, run := range surplusRuns(s) {
		if err := r.Runners.forget(ctx, run); err != nil {
			return err
		}
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, run.secret, client.Preconditions{UID: &run.secret.UID})); err != nil {
			return fmt.Errorf("deleting run %s: %w", run.id, err)
		}
	}
	return nil
}

// keptLost is how many lost runs are kept beyond the history limit, of each kind of lostKind.
const keptLost = 20

// surplusRuns returns the runs beyond the history limit, except the run whose
// outputs are in use, and the latest lost runs, which may hold the lock.
func surplusRuns(s *workspace) []*runRecord {
	limit := historyLimit(s.apply)
	if len(s.runs) <= limit {
		return nil
	}
	inUse := s.latestOutputs()
	lost := latestLost(s.lostRuns())
	return slices.DeleteFunc(slices.Clone(s.runs[limit:]), func(run *runRecord) bool { return run == inUse || slices.Contains(lost, run) })
}

// lostKind distinguishes lost runs by what they may have done.
type lostKind struct{ mayHaveChanged, hadLock bool }

func lostKindOf(run *runRecord) lostKind {
	// A runner records the state that it is about to change.
	return lostKind{mayHaveChanged(run.result()), record.State(run.secret) != nil}
}

// latestLost returns the lost runs that are kept. The newest is the first. One of them may hold
// the lock, and the next run must know it: of each kind, the oldest, which may have taken a lock
// that no later run could take, and the latest.
func latestLost(lost []*runRecord) []*runRecord {
	oldest := map[lostKind]*runRecord{}
	for _, run := range lost {
		oldest[lostKindOf(run)] = run
	}
	count := map[lostKind]int{}
	return slices.DeleteFunc(lost, func(run *runRecord) bool {
		kind := lostKindOf(run)
		count[kind]++
		return count[kind] > keptLost && oldest[kind] != run
	})
}

// lostRuns returns the runs that ended without a result after the last run that ended
// with a complete state.
func (s *workspace) lostRuns() []*runRecord {
	var lost []*runRecord
	for _, run := range s.runs {
		result := run.result()
		switch {
		case result == nil:
		case result.Outcome == outcomeLost && !result.Unclaimed:
			lost = append(lost, run)
		case slices.Contains(settledOutcomes, result.Outcome):
			return lost
		}
	}
	return lost
}

// keptChanges is how many plans keep their changes. The next run, which often changes
// nothing, must not delete the answer to what the last one did.
const keptChanges = 3

// surplusPlans returns the Secrets of plans, except those of the plan that waits
// for approval, and the changes of the latest plans.
func surplusPlans(secrets []corev1.Secret, plan *infrav1.PlanStatus) []corev1.Secret {
	kept := latestChanges(secrets)
	return slices.DeleteFunc(slices.Clone(secrets), func(secret corev1.Secret) bool {
		return slices.Contains(kept, record.ChunkedName(secret.Name)) ||
			plan != nil && (record.IsChunk(secret.Name, record.ChangesName(plan.ID)) || isWaiting(plan) && strings.HasPrefix(secret.Name, "capt-"+plan.ID+"-"))
	})
}

// latestChanges returns the names of the stored changes of the latest plans.
func latestChanges(secrets []corev1.Secret) []string {
	first := slices.DeleteFunc(slices.Clone(secrets), func(secret corev1.Secret) bool {
		return !record.IsChanges(record.ChunkedName(secret.Name)) || record.ChunkName(record.ChunkedName(secret.Name), 0) != secret.Name
	})
	slices.SortStableFunc(first, newestFirst)
	var names []string
	for _, secret := range first[:min(keptChanges, len(first))] {
		names = append(names, record.ChunkedName(secret.Name))
	}
	return names
}

// newestFirst compares what runs stored. What a retained workspace of the same name left may
// have higher numbers of runs, so the time decides first.
func newestFirst(a, b corev1.Secret) int {
	return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(runNumber(b), runNumber(a)))
}

// runNumber returns the number of the run that wrote a Secret, or 0 if it is not known.
func runNumber(secret corev1.Secret) int64 {
	number, err := record.RunNumber(secret.Labels[infrav1.RunLabel])
	if err != nil {
		return 0
	}
	return number
}

// snapshotLimit returns the number of snapshots that are kept.
func snapshotLimit(apply *infrav1.WorkspaceTemplateApply) int {
	if apply.Spec.SnapshotLimit != nil {
		return int(*apply.Spec.SnapshotLimit)
	}
	return defaultSnapshotLimit
}

// surplusSnapshots returns all parts of the snapshots beyond the limit, the
// newest of which are kept.
func surplusSnapshots(secrets []corev1.Secret, limit int) []corev1.Secret {
	chunks := map[string][]corev1.Secret{}
	var names []string
	for _, secret := range secrets {
		if secret.Annotations[record.KeepAnnotation] != "" {
			continue
		}
		name := record.ChunkedName(secret.Name)
		if _, seen := chunks[name]; !seen {
			names = append(names, name)
		}
		chunks[name] = append(chunks[name], secret)
	}
	slices.SortFunc(names, func(a, b string) int { return newestFirst(chunks[a][0], chunks[b][0]) })
	var surplus []corev1.Secret
	for _, name := range names[min(limit, len(names)):] {
		surplus = append(surplus, chunks[name]...)
	}
	return surplus
}
