package workspacetemplateapply

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/seal"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/queue"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// workspace is a workspace with its recorded runs.
type workspace struct {
	apply *infrav1.WorkspaceTemplateApply
	now   time.Time
	// key authenticates the runs.
	key *seal.Key
	// runs are the recorded runs, the newest first.
	runs []*runRecord
	// unused is the last number that was taken if no run has it, or 0.
	unused int64
	// statusChanged is set if a result was recorded that is not in the stored status yet.
	statusChanged bool
}

// scope is the data of one reconcile of a workspace.
type scope struct {
	*workspace
	*status
	*resolved

	// maxTimeout is the longest timeout of a run, or 0.
	maxTimeout time.Duration
	// rescued are the names of the states that runs could not save to the backend.
	rescued []string
	// keepsSlot is set if the workspace waits for a slot in the queue, or has started a
	// run with it.
	keepsSlot bool
	// transfersExpire is the time until the next transferred state is deleted, or 0.
	transfersExpire time.Duration
	// unpruned is set if the cache does not have the newest snapshot yet.
	unpruned bool
}

// scopeOf returns the scope of a workspace of which nothing else is known yet.
func scopeOf(w *workspace) *scope {
	return &scope{workspace: w, status: &status{workspace: w}, resolved: &resolved{workspace: w}}
}

// runRecord is the Secret of a run.
type runRecord struct {
	id string
	// workspace is the name of the workspace. That in the Secret may be another one.
	workspace    string
	workspaceUID types.UID
	number       int64
	secret       *corev1.Secret
	// origin is how the run is known to be of this manager.
	origin origin
	// known is what the status says about the run, if the seal does not prove that its
	// annotations are those with which the manager created it.
	known infrav1.RunStatus
	// digest is that of the result, once it was read. lockFile is its dependency lock file, if
	// the cache does not have the result and the next run needs it.
	digest   *digest
	lockFile []byte
}

func (s *workspace) name() client.ObjectKey { return client.ObjectKeyFromObject(s.apply) }

// slot returns the key of the workspace in the queue.
func (s *workspace) slot() queue.Key { return slotOf(s.apply) }

func slotOf(apply *infrav1.WorkspaceTemplateApply) queue.Key {
	return queue.Key{Namespace: apply.Namespace, Name: apply.Name}
}

func (r *Reconciler) scope(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, _ *clusterv1.Cluster) (*scope, error) {
	s := scopeOf(&workspace{apply: apply, now: r.Now()})
	s.defaultAccount, s.maxTimeout = r.Limits.DefaultServiceAccount, r.MaxTimeout
	if err := r.store.readRuns(ctx, s.workspace); err != nil {
		return nil, err
	}
	// The step dependencies waits for a template that does not exist.
	known := template.Sources{Apply: apply, Template: &infrav1.WorkspaceTemplate{}}
	if err := r.Client.Get(ctx, apply.Spec.TemplateRef.Key(apply.Namespace), known.Template); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the template: %w", err)
	}
	s.template, s.policy = known.Template, template.PolicyOf(known)
	var err error
	if s.policies, err = r.resolver.policiesOf(ctx, apply, known.Template); err != nil {
		return nil, err
	}
	expectViolations(s.policies)
	return s, nil
}

// readRuns reads the runs of the workspace that are in the cache.
func (r *store) readRuns(ctx context.Context, s *workspace) error {
	secrets, err := r.secrets(ctx, s, record.ComponentRun)
	if err != nil {
		return err
	}
	if s.key, err = r.SealKey(ctx); err != nil {
		return err
	}
	s.runs = runRecords(s.key, s.apply, secrets)
	return r.readDigests(ctx, s.runs)
}

// runRecords returns the runs of a workspace, the newest first. It ignores Secrets that
// the manager did not create: runs and users can create Secrets.
func runRecords(key *seal.Key, apply *infrav1.WorkspaceTemplateApply, secrets []corev1.Secret) []*runRecord {
	var runs []*runRecord
	for i := range secrets {
		if run := runRecordOf(key, apply, &secrets[i]); run != nil {
			runs = append(runs, run)
		}
	}
	slices.SortFunc(runs, func(a, b *runRecord) int { return cmp.Compare(b.number, a.number) })
	return runs
}

// origin is how a run is known to be of this manager.
type origin int

const (
	// originForeign is a Secret that the manager did not create.
	originForeign origin = iota
	// originSealed is a run with the manager's seal.
	originSealed
	// originKnown is a run that the status knows, although the key of its seal was lost. It
	// is sealed again when it has ended.
	originKnown
	// originMoved is a run of a workspace without a status that has ended. The workspace
	// comes from another management cluster or from a backup, and the status is restored
	// from its runs.
	originMoved
)

// runRecordOf returns the run that a Secret records, or nil if it records none of the
// workspace. Which run it is follows from the name of the Secret alone.
func runRecordOf(key *seal.Key, apply *infrav1.WorkspaceTemplateApply, secret *corev1.Secret) *runRecord {
	id, number, ok := record.RunOf(apply.Name, secret.Name)
	owner := metav1.GetControllerOf(secret)
	if !ok || owner == nil || owner.UID != apply.UID || owner.Name != apply.Name || record.RunID(secret) != id {
		return nil
	}
	run := &runRecord{id: id, workspace: apply.Name, workspaceUID: apply.UID, number: number, secret: secret}
	if run.origin = originOf(key, apply, run); run.origin == originForeign {
		return nil
	}
	if run.origin != originSealed {
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

func originOf(key *seal.Key, apply *infrav1.WorkspaceTemplateApply, run *runRecord) origin {
	status, ended := &apply.Status, record.Finished(run.secret)
	switch {
	case key.Verify(record.SealPurpose, record.SealedContent(run.secret), run.secret.Annotations[record.SealAnnotation]):
		return originSealed
	case status.Run != nil && status.Run.ID == run.id,
		slices.ContainsFunc(status.History, func(h infrav1.RunRecord) bool { return h.ID == run.id }):
		// Only the manager writes the status.
		return originKnown
	case ended && run.number < status.Runs && !run.secret.CreationTimestamp.After(key.Created()):
		// A run is kept beyond the history while its outputs are in use.
		return originKnown
	case ended && status.Runs == 0 && len(status.History) == 0:
		return originMoved
	default:
		return originForeign
	}
}

// secrets returns the Secrets of the workspace with the given component.
func (r *store) secrets(ctx context.Context, s *workspace, component string) ([]corev1.Secret, error) {
	var list corev1.SecretList
	err := r.Client.List(ctx, &list, client.InNamespace(s.apply.Namespace), client.MatchingFields{workspaceIndex: record.LabelValue(s.apply.Name)})
	if err != nil {
		return nil, fmt.Errorf("listing the Secrets of the workspace: %w", err)
	}
	return s.withComponent(list.Items, component), nil
}

// withComponent returns the Secrets of a component of the workspace.
func (s *workspace) withComponent(secrets []corev1.Secret, component string) []corev1.Secret {
	return slices.DeleteFunc(secrets, func(secret corev1.Secret) bool {
		return !record.BelongsTo(&secret, s.workspaceRef(), component)
	})
}

// current returns the run that has not ended, or nil.
func (s *workspace) current() *runRecord {
	for _, run := range s.runs {
		if !record.Finished(run.secret) {
			return run
		}
	}
	return nil
}

// results returns the digests of the results of all runs, the newest first. That of a run
// that has not ended is nil.
func (s *workspace) results() []*terraform.Result {
	var results []*terraform.Result
	for _, run := range s.runs {
		results = append(results, run.result())
	}
	return results
}

// nextNumber returns the number of the next run. The same scope always returns
// the same number, so that no run is started twice.
func (s *workspace) nextNumber() int64 {
	if s.unused > 0 {
		return s.unused
	}
	last := s.apply.Status.Runs
	if len(s.runs) > 0 {
		last = max(last, s.runs[0].number)
	}
	return last + 1
}

// runner returns the runner of an executor.
func (r *execution) runner(s *workspace, executor infrav1.Executor) (terraform.Runner, error) {
	runner, found := r.Runners[executor]
	if lost := s.lostRun(); !found && lost != nil && lost.executor() == executor {
		return nil, fault.Stall(infrav1.RunFailedReason, "Run %s was lost and may have left a state in the working directory of executor %s, which is not enabled in this manager: enable it, or set the annotation %s to %s to continue without that state",
			lost.id, executor, infrav1.ForceUnlockAnnotation, lost.id)
	}
	if !found {
		return nil, fault.Stall(infrav1.RunFailedReason, "Executor %s is not enabled in this manager: change runner.executor of the WorkspaceProviderConfig", executor)
	}
	return runner, nil
}

// executor returns the executor of the workspace's next run. After a run that was
// lost it is that of the lost run, whose working directory may have a state that is
// not saved, unless the user breaks the lock of that run.
func (r *execution) executor(s *scope) infrav1.Executor {
	if run := s.lostRun(); run != nil && run.executor() != "" && s.apply.Annotations[infrav1.ForceUnlockAnnotation] != run.id {
		return run.executor()
	}
	if s.inputs != nil && s.inputs.Policy.Executor != "" {
		return s.inputs.Policy.Executor
	}
	return r.Default
}

// lostRun returns the newest run that ended without a result, unless a later run
// ended with a complete state.
func (s *workspace) lostRun() *runRecord {
	for _, run := range s.runs {
		result := run.result()
		switch {
		case result == nil:
			return nil
		case result.Outcome == outcomeLost && mayHaveChanged(result) && !changesNothing(run.operation(), run.inputs()):
			return run
		case slices.Contains(settledOutcomes, result.Outcome):
			return nil
		}
	}
	return nil
}

// lockingRun returns the newest run that may have left the lock of another backend than
// that of Kubernetes, unless a later run ended with a complete state.
func (s *workspace) lockingRun() *runRecord {
	for _, run := range s.runs {
		result := run.result()
		switch {
		case result == nil:
		case result.LockLeft, result.Outcome == outcomeLost && mayHaveChanged(result):
			return run
		case slices.Contains(settledOutcomes, result.Outcome):
			return nil
		}
	}
	return nil
}

// ref returns the run for its executor.
func (run *runRecord) ref() terraform.Run {
	return terraform.Run{
		Namespace: run.secret.Namespace, Workspace: run.workspace, WorkspaceUID: string(run.workspaceUID), ID: run.id,
		Digest: run.secret.Annotations[record.DigestAnnotation],
	}
}

func (run *runRecord) executor() infrav1.Executor {
	return infrav1.Executor(run.secret.Annotations[record.ExecutorAnnotation])
}

// operation returns what a run does. It is a field of the status and a label of metrics: what
// is not an operation counts as one that may have changed everything.
func (run *runRecord) operation() terraform.Operation {
	operation := terraform.Operation(cmp.Or(string(run.known.Operation), run.secret.Annotations[record.OperationAnnotation]))
	if !slices.Contains(operations, operation) {
		return terraform.OperationPlanAndApply
	}
	return operation
}

// policies returns the digest of the policies that decide about the plan of a run.
func (run *runRecord) policies() string { return run.secret.Annotations[record.PoliciesAnnotation] }

func (run *runRecord) inputs() string {
	return cmp.Or(run.known.Inputs, run.secret.Annotations[record.InputsAnnotation])
}
