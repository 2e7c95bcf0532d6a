// Package runs reads and writes what is recorded about the runs of a workspace: their
// Secrets, numbers, results and states.
package runs

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/seal"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// Lost returns the result of a run that left none.
func Lost(run *Run, started, ended time.Time, explanation string) *terraform.Result {
	return &terraform.Result{
		RunID: run.ID, Operation: run.Operation(), Outcome: OutcomeLost, Class: terraform.ClassTransient,
		StartedAt: started, FinishedAt: ended,
		Diagnostics: terraform.Diagnostics{{
			Severity: terraform.SeverityError, Summary: "The runner ended without a result",
			Detail: strings.TrimSpace("The next run continues from the state. " + explanation),
		}},
	}
}

// IsDestroyed reports whether a run destroyed all resources; its arguments may exclude
// some. The result is nil if the run has not ended.
func IsDestroyed(result *terraform.Result) bool {
	return result != nil && result.Operation.Destroys() && result.State.Resources == 0 &&
		(result.Outcome == terraform.OutcomeSucceeded || result.Outcome == terraform.OutcomeNoChanges)
}

// lastRunUnsettled reports whether the newest conclusive run left resources that
// may be missing from the state. The results are those of all runs, the newest
// first, with nil for a run that has not ended. Runs that failed are not
// conclusive: they may have ended before they read the state.
func lastRunUnsettled(results []*terraform.Result) bool {
	for _, result := range results {
		switch {
		case result == nil || result.Outcome == OutcomeLost && MayHaveChanged(result):
			return true
		case slices.Contains(SettledOutcomes, result.Outcome):
			return false
		}
	}
	return false
}

// SettledOutcomes are the outcomes of runs that ended with a complete state.
var SettledOutcomes = []terraform.Outcome{terraform.OutcomeSucceeded, terraform.OutcomeNoChanges, terraform.OutcomePlanned, terraform.OutcomeBlocked, terraform.OutcomeDenied}

// MayHaveChanged reports whether a failed run may have changed resources or the
// state.
func MayHaveChanged(result *terraform.Result) bool {
	switch {
	case result.Outcome == OutcomeLost:
		return !result.Unclaimed && !result.Operation.SavesPlan() && result.Operation != terraform.OperationCheckDrift
	case result.Operation == terraform.OperationRestoreState:
		return !result.SnapshotMissing
	}
	return result.ChangesState()
}

const (
	// OutcomeCanceled is the outcome of a run that the user canceled.
	OutcomeCanceled terraform.Outcome = "Canceled"
	// OutcomeLost is the outcome of a run that ended without a result.
	OutcomeLost terraform.Outcome = "Lost"
)

// isRecorded reports whether a run is in the history, or older than the oldest
// run in it.
func isRecorded(history []infrav1.RunRecord, run *Run) bool {
	if slices.ContainsFunc(history, func(h infrav1.RunRecord) bool { return h.ID == run.ID }) {
		return true
	}
	if len(history) == 0 {
		return false
	}
	oldest, err := record.RunNumber(history[len(history)-1].ID)
	return err == nil && run.Number < oldest
}

// outcomeOf returns the outcome of a run. A run that was stopped is canceled if
// the user asked for it.
func outcomeOf(result *terraform.Result, cancelRequested bool) terraform.Outcome {
	if cancelRequested && slices.Contains([]terraform.Outcome{terraform.OutcomeInterrupted, OutcomeLost}, result.Outcome) {
		return OutcomeCanceled
	}
	return result.Outcome
}

// ResolvesModule reports whether the runs of an operation resolve the module for new
// inputs.
func ResolvesModule(operation terraform.Operation) bool {
	return operation == terraform.OperationPlan || operation == terraform.OperationPlanAndApply
}

// BaseInputs returns the hash of the inputs that a run uses.
func (run *Run) BaseInputs() string {
	if once, ok := ParseOneShotInputs(run.Inputs()); ok {
		return once.Inputs
	}
	return run.Inputs()
}

// Request returns the operation that a run executes, or nil.
func (run *Run) Request() *infrav1.RunRequest {
	text := run.Secret.Annotations[record.RequestAnnotation]
	if text == "" {
		return nil
	}
	request := &infrav1.RunRequest{}
	if err := json.Unmarshal([]byte(text), request); err != nil || request.ID == "" || request.Arguments == "" {
		return nil
	}
	return request
}

// HasOutputs reports whether a run read the outputs of the state.
func HasOutputs(operation terraform.Operation, outcome terraform.Outcome) bool {
	switch operation {
	case terraform.OperationCheckDrift, terraform.OperationDestroy, terraform.OperationPlanDestroy, terraform.OperationApplyDestroy,
		terraform.OperationSaveState, terraform.OperationStateCommand, terraform.OperationMoveState:
		return false
	}
	return outcome == terraform.OutcomeSucceeded || outcome == terraform.OutcomeNoChanges
}

// DecidesAbout reports whether policies decide about the plan of an operation.
func DecidesAbout(operation terraform.Operation) bool {
	switch operation {
	case terraform.OperationPlan, terraform.OperationPlanAndApply, terraform.OperationApply:
		return true
	default:
		return operation.Destroys()
	}
}

// CreatesResources reports whether an operation can create resources with the template.
func CreatesResources(operation terraform.Operation) bool {
	return operation == terraform.OperationPlanAndApply || operation == terraform.OperationApply
}

// Run is the Secret of a run.
type Run struct {
	ID string
	// Workspace is the name of the workspace. That in the Secret may be another one.
	Workspace    string
	WorkspaceUID types.UID
	Number       int64
	Secret       *corev1.Secret
	// Origin is how the run is known to be of this manager.
	Origin origin
	// known is what the status says about the run, if the seal does not prove that its
	// annotations are those with which the manager created it.
	known infrav1.RunStatus
	// digest is that of the result, once it was read. lockFile is its dependency lock file, if
	// the cache does not have the result and the next run needs it.
	digest   *digest
	LockFile []byte
}

// Records returns the runs of a workspace, the newest first. It ignores Secrets that
// the manager did not create: runs and users can create Secrets.
func Records(key *seal.Key, apply *infrav1.WorkspaceTemplateApply, secrets []corev1.Secret) []*Run {
	var runs []*Run
	for i := range secrets {
		if run := RunOf(key, apply, &secrets[i]); run != nil {
			runs = append(runs, run)
		}
	}
	slices.SortFunc(runs, func(a, b *Run) int { return cmp.Compare(b.Number, a.Number) })
	return runs
}

// origin is how a run is known to be of this manager.
type origin int

const (
	// originForeign is a Secret that the manager did not create.
	originForeign origin = iota
	// OriginSealed is a run with the manager's seal.
	OriginSealed
	// OriginKnown is a run that the status knows, although the key of its seal was lost. It
	// is sealed again when it has ended.
	OriginKnown
	// OriginMoved is a run of a workspace without a status that has ended. The workspace
	// comes from another management cluster or from a backup, and the status is restored
	// from its runs.
	OriginMoved
)

// RunOf returns the run that a Secret records, or nil if it records none of the
// workspace. Which run it is follows from the name of the Secret alone.
func RunOf(key *seal.Key, apply *infrav1.WorkspaceTemplateApply, secret *corev1.Secret) *Run {
	id, number, ok := record.RunOf(apply.Name, secret.Name)
	owner := metav1.GetControllerOf(secret)
	if !ok || owner == nil || owner.UID != apply.UID || owner.Name != apply.Name || record.RunID(secret) != id {
		return nil
	}
	run := &Run{ID: id, Workspace: apply.Name, WorkspaceUID: apply.UID, Number: number, Secret: secret}
	if run.Origin = originOf(key, apply, run); run.Origin == originForeign {
		return nil
	}
	if run.Origin != OriginSealed {
		run.known = knownRun(&apply.Status, id)
	}
	return run
}

// knownRun returns what the status says about a run. Only the manager writes it, whereas a
// run can change its own Secret.
func knownRun(status *infrav1.WorkspaceTemplateApplyStatus, id string) infrav1.RunStatus {
	if status.Run != nil && status.Run.ID == id {
		return *status.Run
	}
	for _, h := range status.History {
		if h.ID == id {
			return infrav1.RunStatus{ID: id, Operation: h.Operation}
		}
	}
	return infrav1.RunStatus{}
}

func originOf(key *seal.Key, apply *infrav1.WorkspaceTemplateApply, run *Run) origin {
	status, ended := &apply.Status, record.Finished(run.Secret)
	switch {
	case key.Verify(record.SealPurpose, record.SealedContent(run.Secret), run.Secret.Annotations[record.SealAnnotation]):
		return OriginSealed
	case status.Run != nil && status.Run.ID == run.ID,
		slices.ContainsFunc(status.History, func(h infrav1.RunRecord) bool { return h.ID == run.ID }):
		// Only the manager writes the status.
		return OriginKnown
	case ended && run.Number < status.Runs && !run.Secret.CreationTimestamp.After(key.Created()):
		// A run is kept beyond the history while its outputs are in use.
		return OriginKnown
	case ended && status.Runs == 0 && len(status.History) == 0:
		return OriginMoved
	default:
		return originForeign
	}
}

// Ref returns the run for its executor.
func (run *Run) Ref() terraform.Run {
	return terraform.Run{
		Namespace: run.Secret.Namespace, Workspace: run.Workspace, WorkspaceUID: string(run.WorkspaceUID), ID: run.ID,
		Digest: run.Secret.Annotations[record.DigestAnnotation],
	}
}

// Executor returns the executor of the run.
func (run *Run) Executor() infrav1.Executor {
	return infrav1.Executor(run.Secret.Annotations[record.ExecutorAnnotation])
}

// Operation returns what a run does. It is a field of the status and a label of metrics: what
// is not an Operation counts as one that may have changed everything.
func (run *Run) Operation() terraform.Operation {
	operation := terraform.Operation(cmp.Or(string(run.known.Operation), run.Secret.Annotations[record.OperationAnnotation]))
	if !slices.Contains(Operations, operation) {
		return terraform.OperationPlanAndApply
	}
	return operation
}

// Policies returns the digest of the Policies that decide about the plan of a run.
func (run *Run) Policies() string { return run.Secret.Annotations[record.PoliciesAnnotation] }

// Inputs returns the digest of the inputs of the run.
func (run *Run) Inputs() string {
	return cmp.Or(run.known.Inputs, run.Secret.Annotations[record.InputsAnnotation])
}

// Age returns how long ago a run was recorded.
func (run *Run) Age(now time.Time) time.Duration {
	if run.Secret.CreationTimestamp.IsZero() {
		return 0
	}
	return now.Sub(run.Secret.CreationTimestamp.Time)
}

// ChangesState reports whether an operation creates, changes or destroys resources.
func ChangesState(operation terraform.Operation) bool {
	switch operation {
	case terraform.OperationPlanAndApply, terraform.OperationApply, terraform.OperationDestroy, terraform.OperationApplyDestroy:
		return true
	default:
		return false
	}
}

// LeftLock reports whether a run could not release the lock of its backend, and no
// later run has broken it.
func LeftLock(results []*terraform.Result) bool {
	for _, result := range results {
		switch {
		case result == nil:
		case result.LockLeft:
			return true
		case slices.Contains(SettledOutcomes, result.Outcome):
			return false
		}
	}
	return false
}

// ReplacesState reports whether an operation replaces the state by another one. If it
// fails, what it found or left in the backend is not the state of the workspace.
func ReplacesState(operation terraform.Operation) bool {
	switch operation {
	case terraform.OperationMoveState, terraform.OperationStateCommand, terraform.OperationRestoreState:
		return true
	default:
		return false
	}
}
