package runs

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// MaxWord is the size of a phase and of an action in the status, in bytes.
const MaxWord = 32

// A run writes its own result, which may need many MiB of memory, and a workspace may have a
// hundred runs. So a scope has a digest of each result, and reads a whole one where it needs it.

const (
	// MaxText is the size of a text of a diagnostic, in bytes. The status has less of it.
	MaxText = 16 << 10
	// maxLockFile is the size of the dependency lock file that the next run gets.
	maxLockFile = 512 << 10
	// maxDigests is how many digests are kept between reconciles.
	maxDigests = 10_000
)

// digests has the digests by their digestKey. All results of a workspace are needed at each
// reconcile, and a run decides how long it takes to read its own.
var digests = lru.New(maxDigests)

// digestKey is one version of the Secret of a run.
type digestKey struct {
	uid     types.UID
	version string
}

// digest is what the manager needs of the results of all runs.
type digest struct {
	terraform.Result

	hasLockFile bool
}

// Result returns a digest of the Result of a run, or nil if the run has not ended.
func (run *Run) Result() *terraform.Result {
	if run.digest == nil && record.Finished(run.Secret) && !run.restoreDigest() {
		run.setDigest(run.Decode(run.Secret))
	}
	if run.digest == nil {
		return nil
	}
	return &run.digest.Result
}

// setDigest keeps the digest of a result.
func (run *Run) setDigest(result *terraform.Result) {
	run.digest = &digest{*digestOf(result), len(result.LockFile) > 0 && len(result.LockFile) <= maxLockFile}
	if run.Secret.UID != "" {
		digests.Add(digestKey{run.Secret.UID, run.Secret.ResourceVersion}, *run.digest)
	}
}

// restoreDigest sets the digest to that of an earlier reconcile, and reports whether there is one.
func (run *Run) restoreDigest() bool {
	known, found := digests.Get(digestKey{run.Secret.UID, run.Secret.ResourceVersion})
	if found {
		run.digest = new(known.(digest))
	}
	return found
}

// hasLockFile reports whether the result of a run has a dependency lock file.
func (run *Run) hasLockFile() bool { return run.Result() != nil && run.digest.hasLockFile }

// ReadLockFile returns the dependency lock file in the result of a run, or nil. That of a result
// that is not in the cache is read by Reconciler.ReadLockFile.
func (run *Run) ReadLockFile() []byte {
	if !run.hasLockFile() || record.HasTrimmedResult(run.Secret) {
		return run.LockFile
	}
	return run.Decode(run.Secret).LockFile
}

// ReadLockFile reads the newest dependency lock file of the runs, if the cache does not have it.
// The newest run is the first.
func (r *Store) ReadLockFile(ctx context.Context, runs []*Run) error {
	newest := slices.IndexFunc(runs, (*Run).hasLockFile)
	if newest < 0 || !record.HasTrimmedResult(runs[newest].Secret) {
		return nil
	}
	result, err := r.Whole(ctx, runs[newest])
	if err != nil {
		return err
	}
	runs[newest].LockFile = result.LockFile
	return nil
}

// digestOf returns what the manager reads of the results of all runs.
func digestOf(result *terraform.Result) *terraform.Result {
	digest := &terraform.Result{
		RunID: result.RunID, Operation: result.Operation, Outcome: result.Outcome, Class: result.Class,
		State:     terraform.StateInfo{Serial: result.State.Serial, Resources: result.State.Resources},
		Unclaimed: result.Unclaimed, Withdrawn: result.Withdrawn, StateUncertain: result.StateUncertain,
		LockLeft: result.LockLeft, StalePlan: result.StalePlan, SnapshotMissing: result.SnapshotMissing,
		StateProblem: terraform.StateProblem(message.Truncate(string(result.StateProblem), MaxWord)),
		StartedAt:    result.StartedAt, FinishedAt: result.FinishedAt,
	}
	if len(result.Snapshot) <= MaxName {
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

// Decode returns the result in the Secret of a run that has ended. The run wrote it, and may
// have written anything: what is not a result counts as a run that was lost.
func (run *Run) Decode(secret *corev1.Secret) *terraform.Result {
	result, err := record.Result(secret)
	if err != nil || !isResult(result) {
		created := run.Secret.CreationTimestamp.Time
		result = Lost(run, created, created, "The result of the run cannot be read.")
	}
	result.RunID, result.Operation = run.ID, run.Operation()
	for i := range result.Diagnostics {
		d := &result.Diagnostics[i]
		d.Summary, d.Detail = message.Truncate(d.Summary, MaxText), message.Truncate(d.Detail, MaxText)
	}
	return result
}

// ReadDigests reads the digests of results that are too large for the cache.
func (r *Store) ReadDigests(ctx context.Context, runs []*Run) error {
	for _, run := range runs {
		if !record.HasTrimmedResult(run.Secret) || run.restoreDigest() {
			continue
		}
		result, err := r.Whole(ctx, run)
		if err != nil {
			return err
		}
		run.setDigest(result)
	}
	return nil
}

// Whole returns the Whole result of a run that has ended.
func (r *Store) Whole(ctx context.Context, run *Run) (*terraform.Result, error) {
	if !record.HasTrimmedResult(run.Secret) {
		return run.Decode(run.Secret), nil
	}
	secret := &corev1.Secret{}
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(run.Secret), secret); err != nil {
		return nil, fmt.Errorf("reading the result of run %s: %w", run.ID, err)
	}
	return run.Decode(secret), nil
}

const (
	// maxPlanID is the size of the identifier of a plan in the status, in bytes.
	maxPlanID = 64
	// MaxName is the size of the name of an object, in bytes.
	MaxName = 253
)

// isResult reports whether a runner may have written a result.
func isResult(result *terraform.Result) bool {
	return result != nil && slices.Contains(Outcomes, result.Outcome) && slices.Contains(Classes, result.Class) &&
		(result.Plan == nil || result.Plan.ID != "" && len(result.Plan.ID) <= maxPlanID)
}

// Operations are those of runs that a manager creates. Outcomes and Classes are what a result
// may have. All become labels of metrics, and operation and outcome fields of the status.
var (
	Operations = []terraform.Operation{
		terraform.OperationPlan, terraform.OperationApply, terraform.OperationPlanAndApply, terraform.OperationDestroy,
		terraform.OperationPlanDestroy, terraform.OperationApplyDestroy, terraform.OperationCheckDrift, terraform.OperationRestoreState,
		terraform.OperationSaveState, terraform.OperationStateCommand, terraform.OperationMoveState,
	}
	Outcomes = []terraform.Outcome{
		terraform.OutcomeSucceeded, terraform.OutcomePlanned, terraform.OutcomeNoChanges, terraform.OutcomeBlocked, terraform.OutcomeDenied,
		terraform.OutcomeFailed, terraform.OutcomeInterrupted, terraform.OutcomeTimedOut, OutcomeLost,
	}
	Classes = []terraform.Class{"", terraform.ClassTransient, terraform.ClassLockHeld, terraform.ClassTerminal}
)
