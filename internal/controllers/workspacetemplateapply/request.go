package workspacetemplateapply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/queue"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/version"
)

// Limits of the annotation values that the status records.
const (
	maxRequest  = 256
	maxSnapshot = 128 - len(restorePrefix)
)

// situation returns what decides the next run.
func (s *scope) situation() situation {
	status, annotations := s.apply.Status, s.apply.Annotations
	next := situation{
		inputs: s.inputs.Hash, appliedInputs: status.AppliedInputs, policy: s.inputs.Policy,
		request: record.Shorten(annotations[infrav1.RunRequestedAnnotation], maxRequest), handledRequest: status.HandledRequest,
		restore: record.Shorten(s.restore(), maxSnapshot), restored: status.HandledRestore,
		approvedPlan: s.apply.Spec.ApprovedPlan, rejectedPlan: annotations[infrav1.RejectPlanAnnotation],
		stateBackend: stateBackend(status.State), configuredBackend: backendName(s.inputs.Request.Backend), movedBackend: annotations[infrav1.BackendMovedAnnotation],
		policies: s.policies.Digest(),
		protect:  s.inputs.Request.Protect, unprotected: s.unprotected(), plan: status.Plan, failure: status.Failure, drift: status.Drift,
		move: s.pendingMove(), handledCommand: status.HandledStateCommand,
		driftRequest: record.Shorten(annotations[infrav1.CheckDriftAnnotation], maxRequest),
		isOwned:      metav1.GetControllerOf(s.apply) != nil, former: s.formerRequirements(),
		lastApplied: status.AppliedAt.Time, jitter: jitter(s.apply), now: s.now,
	}
	next.command, next.invalidCommand = stateCommand(s.apply)
	var invalid string
	next.oneShot, invalid = oneShot(s.apply)
	if next.oneShot != nil && status.OneShotEnded(next.oneShot.ID) {
		next.oneShot = nil
	}
	if next.invalidCommand == "" {
		next.invalidCommand = invalid
	}
	return next
}

// backendName returns a name that distinguishes backends by type and
// configuration.
func backendName(b terraform.Backend) string {
	if b.HCL == "" {
		return b.Type
	}
	sum := sha256.Sum256([]byte(b.HCL))
	return b.Type + "-" + hex.EncodeToString(sum[:4])
}

// unprotected returns the protected resources that the user released.
func (s *workspace) unprotected() []string {
	return terraform.ParseAddresses(s.apply.Annotations[infrav1.AllowDestroyAnnotation])
}

// restore returns the snapshot that the user wants to restore, or an empty string. A
// request for an earlier workspace of the same name is ignored: the workspace was created
// again from a backup, without the status that shows that the snapshot was restored.
func (s *workspace) restore() string {
	snapshot, uid, bound := strings.Cut(s.apply.Annotations[infrav1.RestoreSnapshotAnnotation], "@")
	if bound && uid != string(s.apply.UID) {
		return ""
	}
	return snapshot
}

// request returns the request of a run that starts.
func (r *execution) request(ctx context.Context, s *scope, next decision) (*terraform.Request, error) {
	if err := r.readLockFile(ctx, s.runs); err != nil {
		return nil, err
	}
	return s.request(next)
}

// request returns the request of a run.
func (s *scope) request(next decision) (*terraform.Request, error) {
	request := s.inputs.Request
	request.RunID = record.NewRunID(s.apply.Name, s.nextNumber())
	request.Operation = next.operation
	if decidesAbout(next.operation) {
		request.Policies = s.policies
	}
	if next.oneShot {
		request.OneShot = s.situation().oneShot
	}
	if !next.oneShot || next.operation == terraform.OperationApply {
		// Resources may have been released for an earlier plan. An operation that destroys
		// them needs an approved plan.
		request.Unprotected = s.unprotected()
	}
	if s.maxTimeout > 0 && (request.Timeout <= 0 || request.Timeout > s.maxTimeout) {
		request.Timeout = s.maxTimeout
	}
	if next.plan != "" {
		request.Plan = &terraform.PlanRef{ID: next.plan}
	}
	if next.operation == terraform.OperationDestroy || next.operation.Destroys() && s.policy.DestroyApproval != infrav1.ApprovalManual {
		// By deleting the workspace the user asked to destroy everything. With
		// destroyApproval: Manual he does so by approving the plan.
		request.Protect = nil
	}
	request.Snapshot = strings.TrimSuffix(strings.TrimPrefix(s.restore(), "capt-"), "-0")
	request.BreakLock = s.apply.Annotations[infrav1.ForceUnlockAnnotation]
	request.State = s.knownState()
	request.Protocol, request.Manager = terraform.Protocol, version.Version()
	request.Rescued = s.rescued
	switch next.operation {
	case terraform.OperationStateCommand:
		request.StateCommand = s.situation().command
	case terraform.OperationMoveState:
		request.From, request.Rescued = s.from(), nil
	}
	request.Pod = s.podSettings()
	pinModule(&request, s.apply.Status.Module, s.inputs.Hash, s.moduleRequest())
	for _, run := range s.runs {
		// A run that has ended cannot hold the lock.
		request.GoneRuns = append(request.GoneRuns, run.id)
		result := run.result()
		if result == nil {
			continue
		}
		if request.LockFile == nil {
			request.LockFile = run.readLockFile()
		}
		identity, err := record.RunIdentity(run.secret)
		if err != nil {
			return nil, err
		}
		if identity != nil && result.Lock == nil {
			request.GoneHolders = append(request.GoneHolders, holderOf(run.executor(), identity, result))
		}
	}
	if request.From != nil {
		request.From.GoneRuns, request.From.GoneHolders, request.From.LockFile = request.GoneRuns, request.GoneHolders, request.LockFile
	}
	return &request, nil
}

// clockSkew is the difference that the clocks of the manager and the API server may
// have from that of the machine of a run.
const clockSkew = time.Minute

// holderOf returns where and when an ended run may have locked its state. A runner
// records the times of its run by the clock that its tool writes into the lock.
func holderOf(executor infrav1.Executor, identity *record.Identity, result *terraform.Result) terraform.Holder {
	switch {
	case executor == infrav1.ExecutorJob && identity.Host == identity.PodName:
		return terraform.Holder{Host: identity.Host}
	case result.Outcome == outcomeLost:
		return terraform.Holder{Host: identity.Host, Since: result.StartedAt.Add(-clockSkew), Until: result.FinishedAt.Add(clockSkew)}
	default:
		return terraform.Holder{Host: identity.Host, Since: result.StartedAt, Until: result.FinishedAt}
	}
}

// runMeta returns the metadata of the Secret of a run. Its annotations can be
// read without decoding the data.
func (s *scope) runMeta(request *terraform.Request, executor infrav1.Executor) metav1.ObjectMeta {
	meta := record.Meta(request.Workspace, record.ComponentRun, request.RunID)
	meta.Annotations = map[string]string{
		record.OperationAnnotation: string(request.Operation),
		record.InputsAnnotation:    s.inputsOf(decision{operation: request.Operation, oneShot: request.OneShot != nil}),
		record.ExecutorAnnotation:  string(executor),
		record.BackendAnnotation:   request.Backend.Type,
		record.StateAnnotation:     string(mustJSON(s.apply.Status.State)),
		record.SourceAnnotation:    moduleSource(request.Module),
		record.SettingsAnnotation:  settingsOf(request),
	}
	if artifact := request.Module.Artifact; artifact != nil && artifact.Digest != "" {
		meta.Annotations[record.ArtifactAnnotation] = artifact.Digest
	}
	if digest := request.Policies.Digest(); digest != "" {
		meta.Annotations[record.PoliciesAnnotation] = digest
	}
	if _, configuration, found := strings.Cut(backendName(request.Backend), "-"); found {
		meta.Annotations[record.ConfigurationAnnotation] = configuration
	}
	if source := s.outputsSource(); source != nil {
		meta.Annotations[record.ObjectsAnnotation] = string(mustJSON(source))
	}
	if required := s.required(request.Operation); required != nil {
		meta.Annotations[requirementsAnnotation] = string(mustJSON(required))
	}
	// Each run records which requests were handled before it, because the status
	// may be lost after the run that handled them was pruned.
	handledRequest := s.situation().request
	if request.Operation == terraform.OperationStateCommand || request.OneShot != nil {
		// The command does not fulfil the request for a run.
		handledRequest = s.apply.Status.HandledRequest
	}
	if request.OneShot != nil {
		meta.Annotations[record.OneShotAnnotation] = string(mustJSON(runRequest(s.apply, request.OneShot)))
	}
	for key, value := range map[string]string{
		record.RequestAnnotation:        handledRequest,
		record.CommandAnnotation:        s.apply.Status.HandledStateCommand,
		record.MovedAnnotation:          s.apply.Status.HandledMove,
		record.RestoredAnnotation:       s.apply.Status.HandledRestore,
		record.DriftAnnotation:          s.situation().driftRequest,
		record.HandledOneShotAnnotation: strings.Join(s.apply.Status.EndedOneShots, " "),
	} {
		if value != "" {
			meta.Annotations[key] = value
		}
	}
	return meta
}

// inputsOf returns the identity of the inputs of a run.
func (s *scope) inputsOf(next decision) string {
	if next.oneShot {
		return oneShotInputs(s.situation().oneShot, s.inputs.Hash)
	}
	switch next.operation {
	case terraform.OperationRestoreState:
		return restoreInputs(s.situation().restore)
	case terraform.OperationDestroy, terraform.OperationPlanDestroy, terraform.OperationApplyDestroy:
		return destroyInputs
	case terraform.OperationSaveState:
		return settleInputs
	case terraform.OperationStateCommand:
		return commandInputs(s.situation().command)
	case terraform.OperationMoveState:
		return moveInputs(s.situation().move.ID)
	default:
		return s.inputs.Hash
	}
}

// group returns the queue group of the runs that share the limit of the provider
// config. It has no limit if the inputs are unknown.
func (s *scope) group() queue.Group {
	namespace := ""
	if borrower, sealed := s.borrowerKey(); sealed {
		// A forged annotation would charge the slot to another namespace.
		namespace = borrower.Namespace
	}
	if s.inputs == nil || s.sources.ProviderConfig == nil || s.inputs.Policy.MaxConcurrent == 0 {
		return queue.Group{Namespace: namespace}
	}
	return queue.Group{
		Name:      s.sources.ProviderConfig.Namespace + "/" + s.sources.ProviderConfig.Name,
		Limit:     s.inputs.Policy.MaxConcurrent,
		Namespace: namespace,
	}
}

// groupOf returns the group of the next run. Drift checks for which no user waits are background
// runs.
func (s *scope) groupOf(next decision) queue.Group {
	group := s.group()
	group.Background = next.operation == terraform.OperationCheckDrift && !s.situation().driftCheckRequested()
	return group
}

func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil { // API types always marshal.
		panic(fmt.Sprintf("marshalling %T: %v", v, err))
	}
	return text
}
