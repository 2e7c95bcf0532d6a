package workspacetemplateapply

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// A run writes its own result, which may need many MiB of memory, and a workspace may have a
// hundred runs. So the manager keeps a digest of each result. It reads a whole one where it
// needs it, and one large one at a time.

const (
	// maxText is the size of a text of a diagnostic, in bytes. The status has less of it.
	maxText = 16 << 10
	// maxLockFile is the size of the dependency lock file that the next run gets.
	maxLockFile = 512 << 10
	// readTimeout is how long a large result may take to be read. Others wait meanwhile.
	readTimeout = 10 * time.Second
)

// result returns a digest of the result of a run, or nil if the run has not ended.
func (run *runRecord) result() *terraform.Result {
	if run.digest == nil && record.Finished(run.secret) && !run.digests.restore(run) {
		run.setDigest(run.decode(run.secret))
	}
	return run.digest
}

// setDigest keeps the digest of a result.
func (run *runRecord) setDigest(result *terraform.Result) {
	run.digest, run.hasLockFile = digestOf(result), len(result.LockFile) > 0 && len(result.LockFile) <= maxLockFile
	run.digests.keep(run)
}

// readLockFile returns the dependency lock file in the result of a run, or nil. That of a result
// that is not in the cache is read by Reconciler.readLockFile.
func (run *runRecord) readLockFile() []byte {
	if run.result() == nil || !run.hasLockFile || record.HasTrimmedResult(run.secret) {
		return run.lockFile
	}
	return run.decode(run.secret).LockFile
}

// readLockFile reads the newest dependency lock file of the runs, if the cache does not have it.
// The newest run is the first.
func (r *Reconciler) readLockFile(ctx context.Context, runs []*runRecord) error {
	newest := slices.IndexFunc(runs, func(run *runRecord) bool { return run.result() != nil && run.hasLockFile })
	if newest < 0 || !record.HasTrimmedResult(runs[newest].secret) {
		return nil
	}
	result, release, err := r.whole(ctx, runs[newest])
	if err != nil {
		return err
	}
	defer release()
	runs[newest].lockFile = result.LockFile
	return nil
}

// digestOf returns what the manager reads of the results of all runs.
func digestOf(result *terraform.Result) *terraform.Result {
	digest := &terraform.Result{
		RunID: result.RunID, Operation: result.Operation, Outcome: result.Outcome, Class: result.Class,
		State:     terraform.StateInfo{Serial: result.State.Serial, Resources: result.State.Resources},
		Unclaimed: result.Unclaimed, Withdrawn: result.Withdrawn, StateUncertain: result.StateUncertain,
		LockLeft: result.LockLeft, StalePlan: result.StalePlan, SnapshotMissing: result.SnapshotMissing,
		StateProblem: terraform.StateProblem(message.Truncate(string(result.StateProblem), maxWord)),
		StartedAt:    result.StartedAt, FinishedAt: result.FinishedAt,
	}
	if len(result.Snapshot) <= maxName {
		digest.Snapshot = result.Snapshot
	}
	if result.Lock != nil {
		digest.Lock = &terraform.LockInfo{}
	}
	if result.ChangesState() {
		digest.Phases = []terraform.PhaseTime{{Name: terraform.PhaseWritingState}}
	}
	return digest
}

// decode returns the result in the Secret of a run that has ended. The run wrote it, and may
// have written anything: what is not a result counts as a run that was lost.
func (run *runRecord) decode(secret *corev1.Secret) *terraform.Result {
	result, err := record.Result(secret)
	if err != nil || !isResult(result) {
		created := run.secret.CreationTimestamp.Time
		result = lostResult(run, created, created, "The result of the run cannot be read.")
	}
	result.RunID, result.Operation = run.id, run.operation()
	for i := range result.Diagnostics {
		d := &result.Diagnostics[i]
		d.Summary, d.Detail = message.Truncate(d.Summary, maxText), message.Truncate(d.Detail, maxText)
	}
	return result
}

// readDigests reads the digests of results that are too large for the cache.
func (r *Reconciler) readDigests(ctx context.Context, runs []*runRecord) error {
	for _, run := range runs {
		if !record.HasTrimmedResult(run.secret) || run.digests.restore(run) {
			continue
		}
		result, release, err := r.whole(ctx, run)
		if err != nil {
			return err
		}
		run.setDigest(result)
		release()
	}
	return nil
}

// whole returns the whole result of a run that has ended. The caller must call release when
// it does not need it any more, and must neither call whole nor the API server before that:
// another caller waits for it if the result is large. It may call release again.
func (r *Reconciler) whole(ctx context.Context, run *runRecord) (result *terraform.Result, release func(), err error) {
	trimmed := record.HasTrimmedResult(run.secret)
	if !trimmed && !record.IsLarge(run.secret) {
		return run.decode(run.secret), func() {}, nil
	}
	if err := r.large.begin(ctx); err != nil {
		return nil, nil, fmt.Errorf("waiting to read the result of run %s: %w", run.id, err)
	}
	secret := run.secret
	if trimmed {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		secret = &corev1.Secret{}
		if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(run.secret), secret); err != nil {
			r.large.end()
			return nil, nil, fmt.Errorf("reading the result of run %s: %w", run.id, err)
		}
	}
	return run.decode(secret), sync.OnceFunc(r.large.end), nil
}

const (
	// maxPlanID is the size of the identifier of a plan in the status, in bytes.
	maxPlanID = 64
	// maxName is the size of the name of an object, in bytes.
	maxName = 253
)

// isResult reports whether a runner may have written a result.
func isResult(result *terraform.Result) bool {
	return result != nil && slices.Contains(outcomes, result.Outcome) && slices.Contains(classes, result.Class) &&
		(result.Plan == nil || result.Plan.ID != "" && len(result.Plan.ID) <= maxPlanID)
}

// operations are those of runs that a manager creates. outcomes and classes are what a result
// may have. All become labels of metrics, and operation and outcome fields of the status.
var (
	operations = []terraform.Operation{
		terraform.OperationPlan, terraform.OperationApply, terraform.OperationPlanAndApply, terraform.OperationDestroy,
		terraform.OperationPlanDestroy, terraform.OperationApplyDestroy, terraform.OperationCheckDrift, terraform.OperationRestoreState,
		terraform.OperationSaveState, terraform.OperationStateCommand, terraform.OperationMoveState,
	}
	outcomes = []terraform.Outcome{
		terraform.OutcomeSucceeded, terraform.OutcomePlanned, terraform.OutcomeNoChanges, terraform.OutcomeBlocked, terraform.OutcomeDenied,
		terraform.OutcomeFailed, terraform.OutcomeInterrupted, terraform.OutcomeTimedOut, outcomeLost,
	}
	classes = []terraform.Class{"", terraform.ClassTransient, terraform.ClassLockHeld, terraform.ClassTerminal}
)
