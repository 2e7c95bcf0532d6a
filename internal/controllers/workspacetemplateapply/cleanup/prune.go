package cleanup

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
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/sources"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// defaultSnapshotLimit is the default of spec.snapshotLimit.
const defaultSnapshotLimit = 5

// Cleaner deletes what a workspace does not need any more.
type Cleaner struct {
	*runs.Numbers
	Tracker *sources.Tracker
	Counted *sync.Map
}

// Prune deletes old runs with their logs, plans that cannot be approved any more,
// module content that no run uses, and old snapshots. It runs before the steps that may fail: a workspace that
// fails for weeks has more runs than any other.
func (r *Cleaner) Prune(ctx context.Context, s *runs.Workspace) (unpruned bool, err error) {
	if s.Current() != nil {
		return false, nil
	}
	if err := r.pruneRuns(ctx, s); err != nil {
		return false, err
	}
	if err := r.prunePlans(ctx, s); err != nil {
		return false, err
	}
	modules, err := r.Secrets(ctx, s, record.ComponentModule)
	if err != nil {
		return false, err
	}
	if err := r.DeleteAll(ctx, s, surplusModules(s.Ref(), modules, s.Apply.Status.Module)); err != nil {
		return false, err
	}
	snapshots, err := r.Secrets(ctx, s, record.ComponentSnapshot)
	if err != nil {
		return false, err
	}
	if err := r.pruneUnwanted(ctx, s, snapshots); err != nil {
		return false, err
	}
	if err := r.PruneMoved(ctx, s); err != nil {
		return false, err
	}
	return IsUnpruned(s, snapshots), r.DeleteAll(ctx, s, SurplusSnapshots(snapshots, snapshotLimit(s.Apply)))
}

// pruneUnwanted finishes the deletion of snapshots and rescued states that a user has deleted.
// Their finalizer keeps them only if it is the namespace that is being deleted. A state is kept
// in any case, and used, until its resources are destroyed.
func (r *Cleaner) pruneUnwanted(ctx context.Context, s *runs.Workspace, snapshots []corev1.Secret) error {
	rescued, err := r.Secrets(ctx, s, record.ComponentRescue)
	if err != nil {
		return err
	}
	unwanted := slices.DeleteFunc(slices.Concat(snapshots, rescued), func(secret corev1.Secret) bool { return secret.DeletionTimestamp.IsZero() })
	if len(unwanted) == 0 {
		return nil
	}
	if terminating, err := r.IsTerminating(ctx, s); err != nil || terminating {
		return err
	}
	return r.DeleteAll(ctx, s, unwanted)
}

const (
	// PruneInterval is how often the cache is checked for the newest snapshot, for
	// pruneTimeout after the run. Snapshots have no watch.
	PruneInterval = 5 * time.Second
	pruneTimeout  = time.Minute
)

// IsUnpruned reports whether the newest run has just taken a snapshot that the cache
// does not have yet.
func IsUnpruned(s *runs.Workspace, snapshots []corev1.Secret) bool {
	if len(s.Runs) == 0 {
		return false
	}
	result := s.Runs[0].Result()
	if result == nil || result.Snapshot == "" || s.Now.Sub(result.FinishedAt).Abs() > pruneTimeout {
		return false
	}
	return !slices.ContainsFunc(snapshots, func(secret corev1.Secret) bool { return secret.Name == result.Snapshot })
}

// PruneDeleted deletes what a workspace that is being deleted does not need any more.
func (r *Cleaner) PruneDeleted(ctx context.Context, s *runs.Workspace) error {
	for _, prune := range []func(context.Context, *runs.Workspace) error{r.pruneRuns, r.prunePlans, r.PruneMoved} {
		if err := prune(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// prunePlans deletes the plans that cannot be approved any more, unless a run may be
// storing or applying one.
func (r *Cleaner) prunePlans(ctx context.Context, s *runs.Workspace) error {
	if s.Current() != nil {
		return nil
	}
	plans, err := r.Secrets(ctx, s, record.ComponentPlan)
	if err != nil {
		return err
	}
	return r.DeleteAll(ctx, s, surplusPlans(plans, s.Apply.Status.Plan))
}

// pruneRuns deletes old runs. The destruction of a workspace may take many runs, too.
func (r *Cleaner) pruneRuns(ctx context.Context, s *runs.Workspace) error {
	for _, run := range SurplusRuns(s) {
		if err := r.Runners.Forget(ctx, run); err != nil {
			return err
		}
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, run.Secret, client.Preconditions{UID: &run.Secret.UID})); err != nil {
			return fmt.Errorf("deleting run %s: %w", run.ID, err)
		}
	}
	return nil
}

// KeptLost is how many lost runs are kept beyond the history limit, of each kind of lostKind.
const KeptLost = 20

// SurplusRuns returns the runs beyond the history limit, except the run whose
// outputs are in use, that of a plan that waits, and the latest lost runs, which may hold the lock.
func SurplusRuns(s *runs.Workspace) []*runs.Run {
	limit := runs.HistoryLimit(s.Apply)
	if len(s.Runs) <= limit {
		return nil
	}
	inUse := s.LatestOutputs()
	lost := latestLost(s.LostRuns())
	return slices.DeleteFunc(slices.Clone(s.Runs[limit:]), func(run *runs.Run) bool {
		return run == inUse || s.Plans(run) || slices.Contains(lost, run)
	})
}

// lostKind distinguishes lost runs by what they may have done.
type lostKind struct{ mayHaveChanged, hadLock bool }

func lostKindOf(run *runs.Run) lostKind {
	// A runner records the state that it is about to change.
	return lostKind{runs.MayHaveChanged(run.Result()), record.State(run.Secret) != nil}
}

// latestLost returns the lost runs that are kept. The newest is the first. One of them may hold
// the lock, and the next run must know it: of each kind, the oldest, which may have taken a lock
// that no later run could take, and the latest.
func latestLost(lost []*runs.Run) []*runs.Run {
	oldest := map[lostKind]*runs.Run{}
	for _, run := range lost {
		oldest[lostKindOf(run)] = run
	}
	count := map[lostKind]int{}
	return slices.DeleteFunc(lost, func(run *runs.Run) bool {
		kind := lostKindOf(run)
		count[kind]++
		return count[kind] > KeptLost && oldest[kind] != run
	})
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
			plan != nil && (record.IsChunk(secret.Name, record.ChangesName(plan.ID)) || plan.IsWaiting() && strings.HasPrefix(secret.Name, "capt-"+plan.ID+"-"))
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

// SurplusSnapshots returns all parts of the snapshots beyond the limit, the
// newest of which are kept.
func SurplusSnapshots(secrets []corev1.Secret, limit int) []corev1.Secret {
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

// surplusModules returns the Secrets of module content that no run uses any more. The
// artifact of a Flux source is used if the content is not stored.
func surplusModules(workspace terraform.WorkspaceRef, secrets []corev1.Secret, module *infrav1.ModuleStatus) []corev1.Secret {
	used := ""
	if module != nil {
		used = module.Archive
	}
	if used == "" && module != nil && module.Artifact != "" {
		used = record.ModuleName(workspace, module.Artifact)
	}
	var surplus []corev1.Secret
	for _, secret := range secrets {
		if used == "" || !record.IsChunk(secret.Name, used) {
			surplus = append(surplus, secret)
		}
	}
	return surplus
}

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
