package workspacetemplateapply

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// recordState writes into the status what a run that has ended reported about the
// state, and what its template requires.
func (s *status) recordState(run *runRecord, result *terraform.Result) {
	known := requirementsIn(s.apply.Status.State)
	s.recordReported(run, result)
	s.recordRequirements(known, run, result)
}

// recordReported writes into the status what a run reported about the state. The backend of each run is in its Secret before it starts, and each run
// records what was known before it, so the state is known even if the run failed or
// the status was lost.
func (s *status) recordReported(run *runRecord, result *terraform.Result) {
	previous, _ := s.previousState(run)
	s.apply.Status.State = previous
	if replacesState(run.operation()) && result.Outcome != terraform.OutcomeSucceeded {
		s.keepState(run, result)
		return
	}
	backend, configuration := run.secret.Annotations[record.BackendAnnotation], run.secret.Annotations[record.ConfigurationAnnotation]
	if backend == "" {
		return
	}
	info, uncertain := result.State, result.StateUncertain
	if info.Lineage == "" {
		// The run may have created the state of another backend and could not read it.
		created := uncertain && backend != terraform.BackendKubernetes
		if !created && !mayHaveChanged(result) && !isDestroyed(result) {
			return
		}
		uncertain = !isDestroyed(result)
		recorded := record.State(run.secret)
		if recorded != nil && recorded.Lineage == "" {
			recorded = nil
		}
		if recorded == nil && uncertain && !created && backend != terraform.BackendKubernetes {
			// The run records the state before it changes anything.
			return
		}
		switch {
		case recorded != nil:
			info = *recorded
		case previous != nil && previous.Backend == backend && previous.Configuration == configuration:
			info = stateInfo(previous)
		}
	}
	if isDestroyed(result) {
		info.Resources = 0
	}
	state := &infrav1.StateStatus{Backend: backend, Configuration: configuration, Resources: count(info.Resources), Confirmation: infrav1.StateConfirmed}
	setVersion(state, info)
	if uncertain {
		state.Confirmation = infrav1.StateUnconfirmed
		if previous != nil && previous.Backend == backend {
			state.Resources = max(state.Resources, previous.Resources)
		}
	}
	if backend == terraform.BackendKubernetes {
		state.SecretName = s.kubernetesBackend().StateSecretName()
	}
	state.TemplateRef = s.stateTemplate(run)
	s.apply.Status.State = state
}

// stateTemplate returns the template with which a run could change the state, else that of the
// run before. Such a run needs a grant if the template is of another namespace.
func (s *status) stateTemplate(run *runRecord) *infrav1.ObjectReference {
	if text := run.secret.Annotations[record.ObjectsAnnotation]; text != "" && changesState(run.operation()) {
		source := &infrav1.OutputsSource{}
		if err := json.Unmarshal([]byte(text), source); err == nil {
			return &source.TemplateRef
		}
	}
	if known := s.apply.Status.State; known != nil {
		return known.TemplateRef
	}
	return nil
}

// changesState reports whether an operation creates, changes or destroys resources.
func changesState(operation terraform.Operation) bool {
	switch operation {
	case terraform.OperationPlanAndApply, terraform.OperationApply, terraform.OperationDestroy, terraform.OperationApplyDestroy:
		return true
	default:
		return false
	}
}

// startState records that a run may change the state, before it ends: its record may
// be lost.
func (s *scope) startState(request *terraform.Request) {
	if !changesState(request.Operation) {
		return
	}
	state := s.apply.Status.State.DeepCopy()
	if state == nil {
		state = &infrav1.StateStatus{Backend: request.Backend.Type}
		if _, configuration, found := strings.Cut(backendName(request.Backend), "-"); found {
			state.Configuration = configuration
		}
		if state.Backend == terraform.BackendKubernetes {
			state.SecretName = s.kubernetesBackend().StateSecretName()
		}
	}
	state.Confirmation = infrav1.StateUnconfirmed
	if source := s.outputsSource(); source != nil {
		state.TemplateRef = &source.TemplateRef
	}
	state.Requirements = template.MergeRequirements(state.Requirements, s.required(request.Operation))
	s.apply.Status.State = state
}

// recordLineage records the lineage of the first state as soon as the run has created it:
// the record of the run may be lost, and the state would then be that of another workspace.
func (s *status) recordLineage(run *runRecord) {
	recorded := record.State(run.secret)
	state := s.apply.Status.State
	annotations := run.secret.Annotations
	if recorded == nil || recorded.Lineage == "" || state == nil || state.Lineage != "" || replacesState(run.operation()) ||
		state.Backend != annotations[record.BackendAnnotation] || state.Configuration != annotations[record.ConfigurationAnnotation] {
		return
	}
	setVersion(state, *recorded)
	s.keepLineage()
	s.statusChanged = true
}

// maxLineage is the size of a lineage in the status, in bytes. Those of tools are UUIDs.
const maxLineage = 128

// setVersion sets the version of a state that a run reports.
func setVersion(state *infrav1.StateStatus, info terraform.StateInfo) {
	state.Lineage, state.Serial = record.Shorten(info.Lineage, maxLineage), int64(min(info.Serial, math.MaxInt64))
}

// leftLock reports whether a run could not release the lock of its backend, and no
// later run has broken it.
func leftLock(results []*terraform.Result) bool {
	for _, result := range results {
		switch {
		case result == nil:
		case result.LockLeft:
			return true
		case slices.Contains(settledOutcomes, result.Outcome):
			return false
		}
	}
	return false
}

// replacesState reports whether an operation replaces the state by another one. If it
// fails, what it found or left in the backend is not the state of the workspace.
func replacesState(operation terraform.Operation) bool {
	switch operation {
	case terraform.OperationMoveState, terraform.OperationStateCommand, terraform.OperationRestoreState:
		return true
	default:
		return false
	}
}

// keepState keeps the known state after a failed run that may have replaced it. A move
// has not changed the backend that had the state.
func (s *status) keepState(run *runRecord, result *terraform.Result) {
	if s.apply.Status.State == nil || run.operation() == terraform.OperationMoveState ||
		!mayHaveChanged(result) || changesNothing(run.operation(), run.inputs()) {
		return
	}
	kept := s.apply.Status.State.DeepCopy()
	kept.Confirmation = infrav1.StateUnconfirmed
	s.apply.Status.State = kept
}

// previousState returns what was known about the state before a run.
func (s *workspace) previousState(run *runRecord) (state *infrav1.StateStatus, readable bool) {
	if err := json.Unmarshal([]byte(run.secret.Annotations[record.StateAnnotation]), &state); err != nil {
		// A user has changed it.
		return s.apply.Status.State, false
	}
	return state, true
}

func stateInfo(state *infrav1.StateStatus) terraform.StateInfo {
	return terraform.StateInfo{Lineage: state.Lineage, Serial: uint64(state.Serial), Resources: int(state.Resources)}
}

// inUse reports whether a state has, or may have, resources.
func inUse(state *infrav1.StateStatus) bool {
	return state != nil && (state.Resources > 0 || state.Confirmation == infrav1.StateUnconfirmed)
}

// stateBackend returns the name of the backend that has the state, or an empty
// string if the state has no resources.
func stateBackend(state *infrav1.StateStatus) string {
	if !inUse(state) || state.Backend == "" {
		return ""
	}
	return nameOf(state)
}

func nameOf(state *infrav1.StateStatus) string {
	return strings.TrimSuffix(state.Backend+"-"+state.Configuration, "-")
}

// knownState returns what the next run has to find in its backend.
func (s *scope) knownState() terraform.KnownState {
	known := terraform.KnownState{Adopt: s.apply.Annotations[infrav1.AdoptStateAnnotation], Expected: s.expectedLineage()}
	state := s.apply.Status.State
	if state == nil {
		return known
	}
	// If the state is in another backend and the user has not moved it, it has no
	// resources. Its version distinguishes it from earlier ones nevertheless.
	known.StateInfo, known.Unconfirmed = stateInfo(state), state.Confirmation == infrav1.StateUnconfirmed
	backend := backendName(s.inputs.Request.Backend)
	known.Moved = state.Backend != "" && nameOf(state) != backend && s.apply.Annotations[infrav1.BackendMovedAnnotation] == backend
	return known
}

// nothingLeft reports whether there is nothing to destroy: no run ever started,
// the last run destroyed everything, or the state is empty.
func (r *Reconciler) nothingLeft(ctx context.Context, s *workspace) (bool, error) {
	results := s.results()
	switch {
	case len(results) > 0 && isDestroyed(results[0]) && !results[0].LockLeft:
		return true, nil
	case s.expectsState():
		return false, nil
	case len(results) > 0 && results[0] != nil && needsState(s, results[0].StateProblem):
		return false, nil
	case leftLock(results):
		// Only a run can break the lock, which would stop the next workspace.
		return false, nil
	}
	if unsettled, err := r.store.unsettled(ctx, s, results); err != nil || unsettled {
		return false, err
	}
	// A state that could not be saved may have resources.
	if rescued, err := r.store.rescuedStates(ctx, s); err != nil || len(rescued) > 0 && len(s.runs) > 0 {
		return false, err
	}
	if !usesKubernetes(s.apply.Status.State, s.runs) {
		// Only a run can read the state.
		return !inUse(s.apply.Status.State), nil
	}
	// The state decides, whichever run wrote it.
	var secret corev1.Secret
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.apply.Namespace, Name: s.kubernetesBackend().StateSecretName()}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return !inUse(s.apply.Status.State), nil
	case err != nil:
		return false, fmt.Errorf("reading the state: %w", err)
	}
	empty, version, err := record.StateIsEmpty(&secret)
	if err != nil {
		// A run reports that the state cannot be read, and the user may restore it.
		return false, nil //nolint:nilerr // An unreadable state is not empty.
	}
	if !empty || !inUse(s.apply.Status.State) {
		return empty, nil
	}
	if !isSuccessor(version, s.apply.Status.State) {
		return false, nil
	}
	// Nothing but the status shows this after the state is deleted.
	s.apply.Status.State.Resources, s.apply.Status.State.Confirmation = 0, infrav1.StateConfirmed
	s.statusChanged = true
	return true, nil
}

// leavesState reports whether the workspace may leave an empty state of its own in
// another backend than the default one. A destroy run marks it as free: otherwise the
// next workspace of the same name would have to adopt it. It is tried a few times.
func leavesState(s *workspace) bool {
	state, failure := s.apply.Status.State, s.apply.Status.Failure
	// A lost run, also one that only planned, may have created the state.
	known := state != nil && state.Lineage != ""
	if !known && len(s.lostRuns()) == 0 || usesKubernetes(state, s.runs) {
		return false
	}
	if results := s.results(); len(results) > 0 && isDestroyed(results[0]) && !results[0].LockLeft {
		return false
	}
	return failure == nil || failure.Inputs != destroyInputs || failure.Attempts < freeAttempts
}

// freeAttempts is how often a deletion tries to mark an empty state as free.
const freeAttempts = 3

// needsState reports whether a problem with the state must be solved before the
// workspace is deleted: its own state is missing or outdated. The state of another
// workspace stays as it is if this one never had a state of its own.
func needsState(s *workspace, problem terraform.StateProblem) bool {
	return problem != "" && (problem != terraform.StateForeign || inUse(s.apply.Status.State))
}

// isSuccessor reports whether an empty state is a later version of the known one, so
// that its resources are destroyed.
func isSuccessor(version terraform.StateInfo, known *infrav1.StateStatus) bool {
	return version.Lineage != "" && known.Confirmation != infrav1.StateUnconfirmed &&
		known.Lineage == version.Lineage && version.Serial >= uint64(known.Serial)
}

// usesKubernetes reports whether the Secret of the Kubernetes backend has the state
// of a workspace: the last known state is there, and no run since then used another
// backend.
func usesKubernetes(state *infrav1.StateStatus, runs []*runRecord) bool {
	if state != nil && state.Backend != "" {
		return state.Backend == terraform.BackendKubernetes
	}
	return !slices.ContainsFunc(runs, func(run *runRecord) bool {
		return run.secret.Annotations[record.BackendAnnotation] != terraform.BackendKubernetes
	})
}

// rescuedStates returns the names of the states that runs could not save to their
// backend. Each is read from the API server: the cache may still have one that was saved
// and deleted, and a run that is told to read it has no access to it.
func (r *store) rescuedStates(ctx context.Context, s *workspace) ([]string, error) {
	secrets, err := r.secrets(ctx, s, record.ComponentRescue)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range secrets {
		name, first := record.FirstChunk(secrets[i].Name)
		if !first || secrets[i].Type != corev1.SecretTypeOpaque {
			continue
		}
		var live corev1.Secret
		err := r.Reader.Get(ctx, client.ObjectKeyFromObject(&secrets[i]), &live)
		if apierrors.IsNotFound(err) || err == nil && live.Annotations[record.SupersededAnnotation] != "" {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// supersedeRescued marks the rescued states that are older than a run with which a user
// replaced the state. They continue a state that the user does not want any more, and are
// kept for the user only.
func (r *recorder) supersedeRescued(ctx context.Context, s *status, run *runRecord, result *terraform.Result) error {
	command, _ := parseCommandInputs(run.inputs())
	if result.Outcome != terraform.OutcomeSucceeded || run.operation() != terraform.OperationRestoreState && command.Command != terraform.StatePush {
		return nil
	}
	secrets, err := r.liveSecrets(ctx, s.workspace, record.ComponentRescue)
	if err != nil {
		return err
	}
	for i := range secrets {
		rescued := &secrets[i]
		number, err := record.RunNumber(record.RunID(rescued))
		if err != nil || number >= run.number || rescued.Annotations[record.SupersededAnnotation] != "" {
			continue
		}
		if err := r.annotate(ctx, rescued, record.SupersededAnnotation, &run.id); err != nil {
			return fmt.Errorf("marking %s: %w", rescued.Name, err)
		}
	}
	return nil
}

// deleteRescued deletes rescued states that are saved in the backend now.
func (r *recorder) deleteRescued(ctx context.Context, s *status, names []string) error {
	if len(names) == 0 {
		return nil
	}
	secrets, err := r.secrets(ctx, s.workspace, record.ComponentRescue)
	if err != nil {
		return err
	}
	return r.deleteAll(ctx, s.workspace, slices.DeleteFunc(secrets, func(secret corev1.Secret) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return record.IsChunk(secret.Name, name) })
	}))
}
