package runs

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/seal"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/queue"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// RecordedLender returns the namespace in which a borrower runs since its first run, or an empty
// string. Only the manager writes the status. It is lost in a move to another management
// cluster, and then the annotation counts.
func RecordedLender(apply *infrav1.WorkspaceTemplateApply) string {
	if lender := apply.Status.Host; lender != nil {
		return lender.Namespace
	}
	return apply.Annotations[infrav1.HostedInAnnotation]
}

// WasEmpty reports whether the state was known to be empty before a run. A run of a
// deletion then needs no approval: it only marks the state as free.
func (s *Workspace) WasEmpty(run *Run) bool {
	state, readable := s.PreviousState(run)
	return readable && (state == nil || state.Resources == 0 && state.Confirmation != infrav1.StateUnconfirmed)
}

// KubernetesBackend returns the Kubernetes backend of the workspace.
func (s *Workspace) KubernetesBackend() terraform.Backend {
	return terraform.Backend{Type: terraform.BackendKubernetes, Namespace: s.Apply.Namespace, SecretSuffix: template.StateSuffix(s.Apply.Name)}
}

// defaultHistoryLimit is the default of spec.historyLimit.
const defaultHistoryLimit = 10

// IsNew reports whether a run has ended and its result is not in the status yet.
func (s *Workspace) IsNew(run *Run) bool {
	return record.Finished(run.Secret) && !isRecorded(s.Apply.Status.History, run)
}

// HistoryLimit returns the number of runs that are kept.
func HistoryLimit(apply *infrav1.WorkspaceTemplateApply) int {
	if apply.Spec.HistoryLimit != nil {
		return int(*apply.Spec.HistoryLimit)
	}
	return defaultHistoryLimit
}

// Outcome returns the Outcome of a run of the workspace.
func (s *Workspace) Outcome(run *Run, result *terraform.Result) terraform.Outcome {
	return outcomeOf(result, s.IsCanceled(run.ID))
}

// maxLentName is the limit for the name of a workspace.
const maxLentName = 200

// LentName returns the name of the workspace that runs for a borrower. The name of a namespace has
// no dot.
func LentName(borrower client.ObjectKey) string {
	return record.Shorten(borrower.Namespace+"."+borrower.Name, maxLentName)
}

// BorrowerKey returns the key of the workspace of another namespace for which this one runs. It
// returns false if there is none, or if a workspace of another name would run for it.
func (s *Workspace) BorrowerKey() (client.ObjectKey, bool) {
	namespace, name := s.Apply.HostedFor()
	key := client.ObjectKey{Namespace: namespace, Name: name}
	return key, namespace != "" && s.Apply.Name == LentName(key)
}

// IsLentTo reports whether a workspace that has the key of a borrower runs for it: the borrower
// must say so too.
func (s *Workspace) IsLentTo(borrower *infrav1.WorkspaceTemplateApply) bool {
	return borrower.Status.Runs == 0 && RecordedLender(borrower) == s.Apply.Namespace
}

// Ref returns the reference to the workspace in its runs.
func (s *Workspace) Ref() terraform.WorkspaceRef {
	return terraform.WorkspaceRef{Namespace: s.Apply.Namespace, Name: s.Apply.Name, UID: string(s.Apply.UID)}
}

// LatestOutputs returns the newest run with outputs, or nil.
func (s *Workspace) LatestOutputs() *Run {
	for _, run := range s.Runs {
		if result := run.Result(); result != nil && HasOutputs(run.Operation(), result.Outcome) {
			return run
		}
	}
	return nil
}

// LostRuns returns the runs that ended without a result after the last run that ended
// with a complete state.
func (s *Workspace) LostRuns() []*Run {
	var lost []*Run
	for _, run := range s.Runs {
		result := run.Result()
		switch {
		case result == nil:
		case result.Outcome == OutcomeLost && !result.Unclaimed:
			lost = append(lost, run)
		case slices.Contains(SettledOutcomes, result.Outcome):
			return lost
		}
	}
	return lost
}

// Restore returns the snapshot that the user wants to restore, or an empty string.
func (s *Workspace) Restore() string {
	if o := s.PendingRestore(); o != nil {
		return o.Spec.Restore.Snapshot
	}
	return ""
}

// ExpectedLineage returns the lineage of the state that the workspace had before its status
// was lost, or an empty string. Any editor can write it: it is a reason to refuse an empty
// state, and no proof that a state belongs to the workspace.
func (s *Workspace) ExpectedLineage() string {
	if state := s.Apply.Status.State; state != nil && state.Lineage != "" {
		return ""
	}
	return record.Shorten(s.Apply.Annotations[infrav1.StateLineageAnnotation], maxLineage)
}

// ExpectsState reports whether the workspace had a state about which the status says nothing,
// and that no user has given up.
func (s *Workspace) ExpectsState() bool {
	known := terraform.KnownState{Expected: s.ExpectedLineage()}
	return known.Expected != "" && s.AdoptedState() != known.AdoptNothing()
}

// MissesRun reports whether the cache does not have the run of the status yet.
func (s *Workspace) MissesRun() bool {
	run := s.Apply.Status.Run
	return run != nil && !slices.ContainsFunc(s.Runs, func(r *Run) bool { return r.ID == run.ID })
}

// Seal marks the Secret of a run as created by this manager.
func (s *Workspace) Seal(secret *corev1.Secret) {
	secret.Annotations[record.SealAnnotation] = s.Key.Sign(record.SealPurpose, record.SealedContent(secret))
}

// runRef identifies a run without a record.
func (s *Workspace) runRef(id string) terraform.Run {
	return terraform.Run{Namespace: s.Apply.Namespace, Workspace: s.Apply.Name, WorkspaceUID: string(s.Apply.UID), ID: id}
}

// StaleCache returns the error that repeats a reconcile with a newer cache.
func (s *Workspace) StaleCache() error {
	return apierrors.NewConflict(infrav1.GroupVersion.WithResource("workspacetemplateapplies").GroupResource(), s.Apply.Name, errors.New("the cache is stale"))
}

// Workspace is a Workspace with its recorded runs.
type Workspace struct {
	Apply *infrav1.WorkspaceTemplateApply
	Now   time.Time
	// Key authenticates the runs.
	Key *seal.Key
	// Runs are the recorded runs, the newest first.
	Runs []*Run
	// Requests are what users have requested.
	Requests Requests
	// Borrower is the workspace of another namespace for which this one runs, or nil.
	Borrower *infrav1.WorkspaceTemplateApply
	// Unused is the last number that was taken if no run has it, or 0.
	Unused int64
	// Terminating is set if the workspace and its namespace are being deleted. The API server
	// then creates no object in it, so that no run can start.
	Terminating bool
	// StatusChanged is set if a result was recorded that is not in the stored status yet.
	StatusChanged bool
}

// Name returns the name of the workspace.
func (s *Workspace) Name() client.ObjectKey { return client.ObjectKeyFromObject(s.Apply) }

// Slot returns the key of the workspace in the queue.
func (s *Workspace) Slot() queue.Key {
	return queue.Key{Namespace: s.Apply.Namespace, Name: s.Apply.Name}
}

// WithComponent returns the Secrets of a component of the workspace.
func (s *Workspace) WithComponent(secrets []corev1.Secret, component string) []corev1.Secret {
	return slices.DeleteFunc(secrets, func(secret corev1.Secret) bool {
		return !record.BelongsTo(&secret, s.Ref(), component)
	})
}

// Current returns the run that has not ended, or nil.
func (s *Workspace) Current() *Run {
	for _, run := range s.Runs {
		if !record.Finished(run.Secret) {
			return run
		}
	}
	return nil
}

// Results returns the digests of the Results of all runs, the newest first. That of a run
// that has not ended is nil.
func (s *Workspace) Results() []*terraform.Result {
	var results []*terraform.Result
	for _, run := range s.Runs {
		results = append(results, run.Result())
	}
	return results
}

// NextNumber returns the number of the next run. The same scope always returns
// the same number, so that no run is started twice.
func (s *Workspace) NextNumber() int64 {
	if s.Unused > 0 {
		return s.Unused
	}
	last := s.Apply.Status.Runs
	if len(s.Runs) > 0 {
		last = max(last, s.Runs[0].Number)
	}
	return last + 1
}

// LostRun returns the newest run that ended without a result, unless a later run
// ended with a complete state.
func (s *Workspace) LostRun() *Run {
	for _, run := range s.Runs {
		result := run.Result()
		switch {
		case result == nil:
			return nil
		case result.Outcome == OutcomeLost && MayHaveChanged(result) && !ChangesNothing(run.Operation(), run.Inputs()):
			return run
		case slices.Contains(SettledOutcomes, result.Outcome):
			return nil
		}
	}
	return nil
}

// LockingRun returns the newest run that may have left the lock of another backend than
// that of Kubernetes, unless a later run ended with a complete state.
func (s *Workspace) LockingRun() *Run {
	for _, run := range s.Runs {
		result := run.Result()
		switch {
		case result == nil:
		case result.LockLeft, result.Outcome == OutcomeLost && MayHaveChanged(result):
			return run
		case slices.Contains(SettledOutcomes, result.Outcome):
			return nil
		}
	}
	return nil
}

// PreviousState returns what was known about the state before a run.
func (s *Workspace) PreviousState(run *Run) (state *infrav1.StateStatus, readable bool) {
	if err := json.Unmarshal([]byte(run.Secret.Annotations[record.StateAnnotation]), &state); err != nil {
		// A user has changed it.
		return s.Apply.Status.State, false
	}
	return state, true
}
