package execution

import (
	"context"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/queue"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/version"
)

// Request returns the Request of a run that starts.
func (r *Reconciler) Request(ctx context.Context, s *Scope, next decision.Decision) (*terraform.Request, error) {
	if err := r.ReadLockFile(ctx, s.Runs); err != nil {
		return nil, err
	}
	return s.Request(next)
}

// Request returns the Request of a run.
func (s *Scope) Request(next decision.Decision) (*terraform.Request, error) {
	request := s.Inputs.Request
	request.RunID = record.NewRunID(s.Apply.Name, s.NextNumber())
	request.Operation = next.Operation
	if runs.DecidesAbout(next.Operation) {
		request.Policies = s.Policies
	}
	if next.OneShot {
		request.OneShot = s.Situation().OneShot
	}
	if !next.OneShot || next.Operation == terraform.OperationApply {
		// Resources may have been released for an earlier plan. An operation that destroys
		// them needs an approved plan.
		request.Unprotected = s.Unprotected(s.InputsOf(next))
	}
	if s.MaxTimeout > 0 && (request.Timeout <= 0 || request.Timeout > s.MaxTimeout) {
		request.Timeout = s.MaxTimeout
	}
	if next.Plan != "" {
		request.Plan = &terraform.PlanRef{ID: next.Plan}
	}
	if next.Operation == terraform.OperationDestroy || next.Operation.Destroys() && s.Policy.DestroyApproval != infrav1.ApprovalManual {
		// By deleting the workspace the user asked to destroy everything. With
		// destroyApproval: Manual he does so by approving the plan.
		request.Protect = nil
	}
	request.Snapshot = strings.TrimSuffix(strings.TrimPrefix(s.Restore(), "capt-"), "-0")
	request.BreakLock = s.BreakLock()
	request.HoldTainted = s.mayBeTainted() && next.Operation == terraform.OperationPlanAndApply
	request.State = s.knownState()
	request.Protocol, request.Manager = terraform.Protocol, version.Version()
	request.Rescued = s.rescued
	switch next.Operation {
	case terraform.OperationStateCommand:
		request.StateCommand = s.Situation().Command
	case terraform.OperationMoveState:
		request.From, request.Rescued = s.from(), nil
	}
	request.Pod = s.PodSettings()
	PinModule(&request, s.Apply.Status.Module, s.Inputs.Hash, s.Refetches())
	for _, run := range s.Runs {
		// A run that has ended cannot hold the lock.
		request.GoneRuns = append(request.GoneRuns, run.ID)
		result := run.Result()
		if result == nil {
			continue
		}
		if request.LockFile == nil {
			request.LockFile = run.ReadLockFile()
		}
		identity, err := record.RunIdentity(run.Secret)
		if err != nil {
			return nil, err
		}
		if identity != nil && result.Lock == nil {
			request.GoneHolders = append(request.GoneHolders, HolderOf(run.Executor(), identity, result))
		}
	}
	if request.From != nil {
		request.From.GoneRuns, request.From.GoneHolders, request.From.LockFile = request.GoneRuns, request.GoneHolders, request.LockFile
	}
	return &request, nil
}

// mayBeTainted reports whether a run may have been interrupted since the last one that succeeded.
// Nothing tells how a run ended that has not reported its state, because its record was deleted.
func (s *Scope) mayBeTainted() bool {
	state := s.Apply.Status.State
	return s.Apply.Status.InterruptedBy != "" || state != nil && state.Confirmation == infrav1.StateUnconfirmed
}

// ClockSkew is the difference that the clocks of the manager and the API server may
// have from that of the machine of a run.
const ClockSkew = time.Minute

// HolderOf returns where and when an ended run may have locked its state. A runner
// records the times of its run by the clock that its tool writes into the lock.
func HolderOf(executor infrav1.Executor, identity *record.Identity, result *terraform.Result) terraform.Holder {
	switch {
	case executor == infrav1.ExecutorJob && identity.Host == identity.PodName:
		return terraform.Holder{Host: identity.Host}
	case result.Outcome == runs.OutcomeLost:
		return terraform.Holder{Host: identity.Host, Since: result.StartedAt.Add(-ClockSkew), Until: result.FinishedAt.Add(ClockSkew)}
	default:
		return terraform.Holder{Host: identity.Host, Since: result.StartedAt, Until: result.FinishedAt}
	}
}

// RunMeta returns the metadata of the Secret of a run. Its annotations can be
// read without decoding the data.
func (s *Scope) RunMeta(request *terraform.Request, executor infrav1.Executor) metav1.ObjectMeta {
	meta := record.Meta(request.Workspace, record.ComponentRun, request.RunID)
	meta.Annotations = map[string]string{
		record.OperationAnnotation: string(request.Operation),
		record.InputsAnnotation:    s.InputsOf(decision.Decision{Operation: request.Operation, OneShot: request.OneShot != nil}),
		record.ExecutorAnnotation:  string(executor),
		record.BackendAnnotation:   request.Backend.Type,
		record.StateAnnotation:     string(runs.MustJSON(s.Apply.Status.State)),
		record.SourceAnnotation:    runs.ModuleSource(request.Module),
		record.SettingsAnnotation:  settingsOf(request),
	}
	if artifact := request.Module.Artifact; artifact != nil && artifact.Digest != "" {
		meta.Annotations[record.ArtifactAnnotation] = artifact.Digest
	}
	if digest := request.Policies.Digest(); digest != "" {
		meta.Annotations[record.PoliciesAnnotation] = digest
	}
	if _, configuration, found := strings.Cut(runs.BackendName(request.Backend), "-"); found {
		meta.Annotations[record.ConfigurationAnnotation] = configuration
	}
	if source := s.OutputsSource(); source != nil {
		meta.Annotations[record.ObjectsAnnotation] = string(runs.MustJSON(source))
	}
	if required := s.Required(request.Operation); required != nil {
		meta.Annotations[history.RequirementsAnnotation] = string(runs.MustJSON(required))
	}
	operations := s.Fulfils(request.Operation, request.OneShot != nil)
	if executed := runs.RequestOf(operations); executed != nil {
		executed.Arguments = message.Truncate(message.OneLine(executed.Arguments), history.MaxSummary)
		executed.RequestedBy = message.Truncate(message.OneLine(executed.RequestedBy), history.MaxUserName)
		meta.Annotations[record.RequestAnnotation] = string(runs.MustJSON(executed))
	}
	for _, o := range operations {
		if o.Spec.Hold && !o.Spec.HasOptions() {
			meta.Annotations[record.HoldAnnotation] = o.Name
		}
	}
	if len(operations) > 0 {
		meta.Annotations[record.OperationsAnnotation] = uidsOf(operations)
	}
	if request.Module.Refetch && s.Refetches() {
		meta.Annotations[record.RefetchAnnotation] = "true"
	}
	return meta
}

// uidsOf returns the UIDs of operations for the record of a run.
func uidsOf(operations []*infrav1.WorkspaceOperation) string {
	var uids []string
	for _, o := range operations {
		uids = append(uids, string(o.UID))
	}
	return strings.Join(uids, " ")
}

// Refetches reports whether the next run uses what the addresses of the module resolve to now: a
// user requested a run, or that run ended before it resolved them.
func (s *Scope) Refetches() bool {
	if s.RunRequested() {
		return true
	}
	for _, run := range s.Runs {
		result := run.Result()
		if result == nil || !runs.ResolvesModule(run.Operation()) && !run.Operation().Destroys() {
			continue
		}
		_, refetched := run.Secret.Annotations[record.RefetchAnnotation]
		return refetched && !slices.Contains(runs.SettledOutcomes, result.Outcome)
	}
	return false
}

// InputsOf returns the identity of the inputs of a run.
func (s *Scope) InputsOf(next decision.Decision) string {
	if next.OneShot {
		return runs.OneShotInputs(s.Situation().OneShot, s.Inputs.Hash)
	}
	switch next.Operation {
	case terraform.OperationRestoreState:
		return runs.RestoreInputs(s.Situation().Restore)
	case terraform.OperationDestroy, terraform.OperationPlanDestroy, terraform.OperationApplyDestroy:
		return runs.DestroyInputs
	case terraform.OperationSaveState:
		return runs.SettleInputs
	case terraform.OperationStateCommand:
		return runs.CommandInputs(s.Situation().Command)
	case terraform.OperationMoveState:
		return runs.MoveInputs(s.Situation().Move.ID)
	default:
		return s.Inputs.Hash
	}
}

// Group returns the queue Group of the runs that share the limit of the provider
// config. It has no limit if the inputs are unknown.
func (s *Scope) Group() queue.Group {
	namespace := ""
	if s.Borrower != nil {
		// A forged annotation would charge the slot to another namespace.
		namespace = s.Borrower.Namespace
	}
	if s.Inputs == nil || s.Sources.ProviderConfig == nil || s.Inputs.Policy.MaxConcurrent == 0 {
		return queue.Group{Namespace: namespace}
	}
	return queue.Group{
		Name:      s.Sources.ProviderConfig.Namespace + "/" + s.Sources.ProviderConfig.Name,
		Limit:     s.Inputs.Policy.MaxConcurrent,
		Namespace: namespace,
	}
}

// groupOf returns the group of the next run. Drift checks for which no user waits are background
// runs.
func (s *Scope) groupOf(next decision.Decision) queue.Group {
	group := s.Group()
	group.Background = next.Operation == terraform.OperationCheckDrift && !s.Situation().DriftCheckRequested()
	return group
}

// knownState returns what the next run has to find in its backend.
func (s *Scope) knownState() terraform.KnownState {
	known := terraform.KnownState{Adopt: s.AdoptedState(), Expected: s.ExpectedLineage()}
	state := s.Apply.Status.State
	if state == nil {
		return known
	}
	// If the state is in another backend and the user has not moved it, it has no
	// resources. Its version distinguishes it from earlier ones nevertheless.
	known.StateInfo, known.Unconfirmed = runs.StateInfo(state), state.Confirmation == infrav1.StateUnconfirmed
	backend := runs.StateBackend(state)
	known.Moved = backend != "" && backend != runs.BackendName(s.Inputs.Request.Backend)
	return known
}

// from returns the part of a request that describes the backend which has the state.
func (s *Scope) from() *terraform.Request {
	from := s.MoveFrom.Request
	from.Module = terraform.Module{}
	from.BreakLock = s.BreakLock()
	from.Rescued = s.rescued
	state := s.Apply.Status.State
	from.State = terraform.KnownState{
		StateInfo: runs.StateInfo(state), Unconfirmed: state.Confirmation == infrav1.StateUnconfirmed,
		Adopt: s.AdoptedState(),
	}
	return &from
}

// PinModule makes a run use the module content that was resolved for its inputs. New
// inputs and a run that the user requests use what the addresses resolve to now. A
// saved plan is applied with the content that it was created from.
func PinModule(request *terraform.Request, resolved *infrav1.ModuleStatus, inputs string, refetch bool) {
	switch {
	case refetch && (runs.ResolvesModule(request.Operation) || request.Operation.Destroys()) && !isLost(request.Module.Artifact):
		request.Module.Refetch = true
	case resolved == nil:
	case isPinned(resolved, request, inputs):
		request.Module.Pin = &terraform.ModuleContent{Digest: resolved.Digest, Revision: resolved.Revision, Archive: resolved.Archive}
		if artifact := request.Module.Artifact; artifact != nil {
			// The source may have another one now.
			request.Module.Artifact = &terraform.Artifact{Source: artifact.Source, Digest: resolved.Artifact, Revision: resolved.Revision}
		}
	default:
		request.Module.Refetch = true
	}
}

// isLost reports whether a Flux source does not provide its artifact any more.
func isLost(artifact *terraform.Artifact) bool { return artifact != nil && artifact.Digest == "" }

// isPinned reports whether a run uses the content that was resolved. Runs that do not
// apply the inputs use that of the last plan.
func isPinned(resolved *infrav1.ModuleStatus, request *terraform.Request, inputs string) bool {
	if runs.ResolvesModule(request.Operation) || request.Operation == terraform.OperationApply {
		return resolved.Inputs == inputs
	}
	return resolved.Source == runs.ModuleSource(request.Module)
}
