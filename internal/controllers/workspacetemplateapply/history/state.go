package history

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// RecordState writes into the status what a run that has ended reported about the
// state, and what its template requires.
func (s *Status) RecordState(run *runs.Run, result *terraform.Result) {
	known := runs.RequirementsIn(s.Apply.Status.State)
	s.recordReported(run, result)
	s.recordRequirements(known, run, result)
}

// recordReported writes into the status what a run reported about the state. The backend of each run is in its Secret before it starts, and each run
// records what was known before it, so the state is known even if the run failed or
// the status was lost.
func (s *Status) recordReported(run *runs.Run, result *terraform.Result) {
	previous, _ := s.PreviousState(run)
	s.Apply.Status.State = previous
	if runs.ReplacesState(run.Operation()) && result.Outcome != terraform.OutcomeSucceeded {
		s.keepState(run, result)
		return
	}
	backend, configuration := run.Secret.Annotations[record.BackendAnnotation], run.Secret.Annotations[record.ConfigurationAnnotation]
	if backend == "" {
		return
	}
	info, uncertain := result.State, result.StateUncertain
	if info.Lineage == "" {
		// The run may have created the state of another backend and could not read it.
		created := uncertain && backend != terraform.BackendKubernetes
		if !created && !runs.MayHaveChanged(result) && !runs.IsDestroyed(result) {
			return
		}
		uncertain = !runs.IsDestroyed(result)
		recorded := record.State(run.Secret)
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
			info = runs.StateInfo(previous)
		}
	}
	if runs.IsDestroyed(result) {
		info.Resources = 0
	}
	state := &infrav1.StateStatus{Backend: backend, Configuration: configuration, Resources: count(info.Resources), Confirmation: infrav1.StateConfirmed}
	runs.SetVersion(state, info)
	if uncertain {
		state.Confirmation = infrav1.StateUnconfirmed
		if previous != nil && previous.Backend == backend {
			state.Resources = max(state.Resources, previous.Resources)
		}
	}
	if backend == terraform.BackendKubernetes {
		state.SecretName = s.KubernetesBackend().StateSecretName()
	}
	state.TemplateRef = s.stateTemplate(run)
	s.Apply.Status.State = state
}

// stateTemplate returns the template with which a run could change the state, else that of the
// run before. Such a run needs a grant if the template is of another namespace.
func (s *Status) stateTemplate(run *runs.Run) *infrav1.ObjectReference {
	if text := run.Secret.Annotations[record.ObjectsAnnotation]; text != "" && runs.ChangesState(run.Operation()) {
		source := &infrav1.OutputsSource{}
		if err := json.Unmarshal([]byte(text), source); err == nil {
			return &source.TemplateRef
		}
	}
	if known := s.Apply.Status.State; known != nil {
		return known.TemplateRef
	}
	return nil
}

// RecordLineage records the lineage of the first state as soon as the run has created it:
// the record of the run may be lost, and the state would then be that of another workspace.
func (s *Status) RecordLineage(run *runs.Run) {
	recorded := record.State(run.Secret)
	state := s.Apply.Status.State
	annotations := run.Secret.Annotations
	if recorded == nil || recorded.Lineage == "" || state == nil || state.Lineage != "" || runs.ReplacesState(run.Operation()) ||
		state.Backend != annotations[record.BackendAnnotation] || state.Configuration != annotations[record.ConfigurationAnnotation] {
		return
	}
	runs.SetVersion(state, *recorded)
	s.keepLineage()
	s.StatusChanged = true
}

// keepState keeps the known state after a failed run that may have replaced it. A move
// has not changed the backend that had the state.
func (s *Status) keepState(run *runs.Run, result *terraform.Result) {
	if s.Apply.Status.State == nil || run.Operation() == terraform.OperationMoveState ||
		!runs.MayHaveChanged(result) || runs.ChangesNothing(run.Operation(), run.Inputs()) {
		return
	}
	kept := s.Apply.Status.State.DeepCopy()
	kept.Confirmation = infrav1.StateUnconfirmed
	s.Apply.Status.State = kept
}

// markNotMerged marks the rescued states that a run could not save, because they do not continue
// the saved one. The mark moves with the state, and is gone with it.
func (r *Recorder) markNotMerged(ctx context.Context, s *Status, notMerged map[string]int) error {
	if len(notMerged) == 0 {
		return nil
	}
	secrets, err := r.LiveSecrets(ctx, s.Workspace, record.ComponentRescue)
	if err != nil {
		return err
	}
	for i := range secrets {
		name, first := record.FirstChunk(secrets[i].Name)
		missing, found := notMerged[name]
		if !first || !found {
			continue
		}
		count := ""
		if missing >= 0 {
			count = strconv.Itoa(missing)
		}
		if known, marked := secrets[i].Annotations[record.NotMergedAnnotation]; marked && known == count {
			continue
		}
		if err := r.Annotate(ctx, &secrets[i], record.NotMergedAnnotation, &count); err != nil {
			return fmt.Errorf("marking %s: %w", secrets[i].Name, err)
		}
	}
	return nil
}

// SupersedeRescued marks the rescued states that are older than a run with which a user
// replaced the state. They continue a state that the user does not want any more, and are
// kept for the user only.
func (r *Recorder) SupersedeRescued(ctx context.Context, s *Status, run *runs.Run, result *terraform.Result) error {
	command, _ := runs.ParseCommandInputs(run.Inputs())
	if result.Outcome != terraform.OutcomeSucceeded || run.Operation() != terraform.OperationRestoreState && command.Command != terraform.StatePush {
		return nil
	}
	secrets, err := r.LiveSecrets(ctx, s.Workspace, record.ComponentRescue)
	if err != nil {
		return err
	}
	for i := range secrets {
		rescued := &secrets[i]
		number, err := record.RunNumber(record.RunID(rescued))
		if err != nil || number >= run.Number || rescued.Annotations[record.SupersededAnnotation] != "" {
			continue
		}
		if err := r.Annotate(ctx, rescued, record.SupersededAnnotation, &run.ID); err != nil {
			return fmt.Errorf("marking %s: %w", rescued.Name, err)
		}
	}
	return nil
}

// deleteRescued deletes rescued states that are saved in the backend now.
func (r *Recorder) deleteRescued(ctx context.Context, s *Status, names []string) error {
	if len(names) == 0 {
		return nil
	}
	secrets, err := r.Secrets(ctx, s.Workspace, record.ComponentRescue)
	if err != nil {
		return err
	}
	return r.DeleteAll(ctx, s.Workspace, slices.DeleteFunc(secrets, func(secret corev1.Secret) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return record.IsChunk(secret.Name, name) })
	}))
}

// RequirementsAnnotation is the annotation of a run with what its template required when the
// run was created.
const RequirementsAnnotation = "capt.appthrust.io/requirements"

// requiredBy returns what the template of a recorded run required, or nil.
func requiredBy(run *runs.Run) *infrav1.StateRequirements {
	text := run.Secret.Annotations[RequirementsAnnotation]
	if text == "" || !runs.CreatesResources(run.Operation()) {
		return nil
	}
	required := &infrav1.StateRequirements{}
	if err := json.Unmarshal([]byte(text), required); err != nil {
		return nil
	}
	return required
}

// recordRequirements records in the status what the template of a run that has ended
// requires. Until a user has approved a plan of the template, and it was applied, the known
// requirements hold as well, unless those of the template are as strict.
func (s *Status) recordRequirements(known *infrav1.StateRequirements, run *runs.Run, result *terraform.Result) {
	if known == nil {
		// The status was lost.
		previous, _ := s.PreviousState(run)
		known = runs.RequirementsIn(previous)
	}
	if required := requiredBy(run); required != nil {
		_, once := runs.ParseOneShotInputs(run.Inputs())
		approved := run.Operation() == terraform.OperationApply && !once
		succeeded := result.Outcome == terraform.OutcomeSucceeded || result.Outcome == terraform.OutcomeNoChanges
		if succeeded && (approved || template.Covers(required, known)) {
			known = required
		}
		known = template.MergeRequirements(known, required)
	}
	if state := s.Apply.Status.State; state != nil {
		state.Requirements = known
	}
}

// RecordModule records the module content that a run resolved for its inputs.
func (s *Status) RecordModule(run *runs.Run, result *terraform.Result) {
	source := run.Secret.Annotations[record.SourceAnnotation]
	switch {
	case !runs.ResolvesModule(result.Operation) || result.Module != nil && result.Module.Digest == "":
		return
	case result.Module == nil:
		if slices.Contains(runs.SettledOutcomes, result.Outcome) || result.Outcome == terraform.OutcomePlanned {
			// The module does not fetch anything any more.
			s.Apply.Status.Module = nil
		}
		return
	}
	module := &infrav1.ModuleStatus{
		Digest: record.Shorten(result.Module.Digest, maxRevision), Revision: record.Shorten(result.Module.Revision, maxRevision),
		Artifact: run.Secret.Annotations[record.ArtifactAnnotation],
		Source:   source, Inputs: run.BaseInputs(),
	}
	if name := record.ModuleName(s.Ref(), result.Module.Digest); result.Module.Archive == name {
		// A run must not choose which Secret later runs read.
		module.Archive = name
	}
	s.Apply.Status.Module = module
}

// maxRevision is the size of the revision of a module, in bytes.
const maxRevision = 128
