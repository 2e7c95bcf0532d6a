package workspacetemplateapply

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

const (
	// commandPrefix precedes the command and its ID in the inputs of a run that
	// executes a state command.
	commandPrefix = "state "
	// movePrefix precedes the ID of the request in the inputs of a run that moves the
	// state.
	movePrefix = "move "
)

func commandInputs(c *terraform.StateCommand) string { return commandPrefix + c.Command + " " + c.ID }

func moveInputs(id string) string { return movePrefix + id }

// parseCommandInputs reverses commandInputs.
func parseCommandInputs(inputs string) (terraform.StateCommand, bool) {
	text, found := strings.CutPrefix(inputs, commandPrefix)
	command, id, split := strings.Cut(text, " ")
	return terraform.StateCommand{Command: command, ID: id}, found && split
}

// changesNothing reports whether a run only reads resources and state.
func changesNothing(operation terraform.Operation, inputs string) bool {
	switch operation {
	case terraform.OperationCheckDrift:
		return true
	case terraform.OperationStateCommand:
		command, ok := parseCommandInputs(inputs)
		return ok && !command.Writes()
	default:
		once, ok := parseOneShotInputs(inputs)
		return ok && once.kind == kindPlanOnly
	}
}

// stateCommand returns the state command of the annotation, or what is wrong with the
// annotations.
func stateCommand(apply *infrav1.WorkspaceTemplateApply) (*terraform.StateCommand, string) {
	if text := apply.Annotations[infrav1.MoveStateAnnotation]; text != "" {
		if _, err := terraform.ParseMove(text); err != nil {
			return nil, "Annotation " + infrav1.MoveStateAnnotation + " is invalid: " + err.Error()
		}
	}
	text := apply.Annotations[infrav1.StateCommandAnnotation]
	if text == "" {
		return nil, ""
	}
	command, err := terraform.ParseStateCommand(text)
	if err != nil {
		return nil, "Annotation " + infrav1.StateCommandAnnotation + " is invalid: " + err.Error()
	}
	if uid := string(apply.UID); command.ID != apply.Status.HandledStateCommand && command.UID != uid && (command.UID != "" || command.Writes()) {
		return nil, fmt.Sprintf("Annotation %s has state %s for the workspace with UID %q, but this one has UID %q: it was restored or copied, and the command may have been executed before", infrav1.StateCommandAnnotation, command.Command, command.UID, uid)
	}
	return command, ""
}

// recordCommands records which commands were handled before or by a run. A command is
// executed once, whatever the outcome: the user decides whether to repeat it.
func (s *status) recordCommands(run *runRecord) {
	status := &s.apply.Status
	if handled := run.secret.Annotations[record.CommandAnnotation]; handled != "" {
		status.HandledStateCommand = handled
	}
	if handled := run.secret.Annotations[record.MovedAnnotation]; handled != "" {
		status.HandledMove = handled
	}
	for _, ended := range slices.Backward(strings.Fields(run.secret.Annotations[record.HandledOneShotAnnotation])) {
		status.EndOneShot(ended)
	}
	if command, ok := parseCommandInputs(run.inputs()); ok && run.operation() == terraform.OperationStateCommand {
		status.HandledStateCommand = command.ID
	}
}

// requestedMove returns the user's request to move the state to the provider config
// of the workspace, or nil if there is none that was not handled.
func (s *resolved) requestedMove() *terraform.Move {
	move, err := terraform.ParseMove(s.apply.Annotations[infrav1.MoveStateAnnotation])
	if err != nil || move.ID == s.apply.Status.HandledMove {
		return nil
	}
	if key := s.providerConfigKey(); key == nil && move.To != "" || key != nil && move.To != key.Name {
		return nil
	}
	return move
}

// pendingMove returns the move that the next run executes, or nil.
func (s *resolved) pendingMove() *terraform.Move {
	if s.moveFrom == nil {
		return nil
	}
	return s.requestedMove()
}

// resolveMove resolves the inputs of the backend that has the state, if the user
// requested to move it.
func (r *resolver) resolveMove(ctx context.Context, s *resolved) error {
	s.moveFrom = nil
	state := s.apply.Status.State
	move := s.requestedMove()
	if move == nil {
		return nil
	}
	configured := backendName(s.inputs.Request.Backend)
	if !inUse(state) || state.Backend == "" || nameOf(state) == configured {
		// There is nothing to move.
		s.apply.Status.HandledMove = move.ID
		return nil
	}
	sources := template.Sources{Apply: s.apply, Template: s.sources.Template}
	if move.From != "" {
		if err := r.readProviderConfig(ctx, &sources, client.ObjectKey{Namespace: s.apply.Namespace, Name: move.From}); err != nil {
			return err
		}
	}
	if err := r.readValues(ctx, &sources, template.ReferencesOf(sources)); err != nil {
		return err
	}
	from, err := template.Resolve(sources)
	if err != nil {
		return inputsFault(err)
	}
	if state.Backend == terraform.BackendKubernetes {
		// Every workspace has this backend, whatever its provider config.
		from.Request.Backend = s.kubernetesBackend()
	}
	switch name := backendName(from.Request.Backend); {
	case nameOf(state) != name:
		return fault.Stall(infrav1.InvalidStateCommandReason,
			"The state is in backend %s and cannot be moved, because WorkspaceProviderConfig %q has backend %s: restore its configuration, or change spec.providerConfigRef back",
			nameOf(state), move.From, name)
	case name == configured:
		s.apply.Status.HandledMove = move.ID
		return nil
	}
	s.moveFrom = from
	return nil
}

// from returns the part of a request that describes the backend which has the state.
func (s *scope) from() *terraform.Request {
	from := s.moveFrom.Request
	from.Module = terraform.Module{}
	from.BreakLock = s.apply.Annotations[infrav1.ForceUnlockAnnotation]
	from.Rescued = s.rescued
	state := s.apply.Status.State
	from.State = terraform.KnownState{
		StateInfo: stateInfo(state), Unconfirmed: state.Confirmation == infrav1.StateUnconfirmed,
		Adopt: s.apply.Annotations[infrav1.AdoptStateAnnotation],
	}
	return &from
}

// transferLifetime is how long a state that a user pulled or pushed may exist. captctl
// deletes it after the command.
const transferLifetime = time.Hour

// pruneTransfers deletes the transferred states that captctl left, whatever the
// workspace does. It returns the time until the next one is deleted, or 0.
func (r *cleaner) pruneTransfers(ctx context.Context, s *workspace) (next time.Duration, err error) {
	transfers, err := r.secrets(ctx, s, record.ComponentTransfer)
	if err != nil {
		return 0, err
	}
	var expired []corev1.Secret
	for i := range transfers {
		wait := transfers[i].CreationTimestamp.Add(transferLifetime).Sub(s.now)
		switch {
		case wait <= 0:
			expired = append(expired, transfers[i])
		case next == 0 || wait < next:
			next = max(pruneInterval, wait)
		}
	}
	return next, r.deleteAll(ctx, s, expired)
}

func (r *Reconciler) pruneTransfers(ctx context.Context, s *scope) (err error) {
	s.transfersExpire, err = r.cleaner.pruneTransfers(ctx, s.workspace)
	return err
}

// whilePaused deletes the transferred states that captctl left: they are confidential.
func (r *Reconciler) whilePaused(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (time.Duration, error) {
	return r.cleaner.pruneTransfers(ctx, &workspace{apply: apply, now: r.Now()})
}

// pruneMoved deletes the Secret of the default backend if the state is in another one. A
// later workspace of the same name, or this one after another change of its backend,
// would use the outdated state in it. A state that is not an earlier version of the
// known one is kept as a snapshot: a user moved the state, or an earlier workspace of the
// same name left it.
func (r *cleaner) pruneMoved(ctx context.Context, s *workspace) error {
	state := s.apply.Status.State
	if s.current() != nil || state == nil || state.Confirmation != infrav1.StateConfirmed || usesKubernetes(state, s.runs) {
		return nil
	}
	cached, err := r.secrets(ctx, s, record.ComponentState)
	if err != nil || len(cached) == 0 {
		return err
	}
	var secret corev1.Secret
	err = r.Reader.Get(ctx, client.ObjectKey{Namespace: s.apply.Namespace, Name: s.kubernetesBackend().StateSecretName()}, &secret)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the state: %w", err)
	}
	empty, version, err := record.StateIsEmpty(&secret)
	if err != nil {
		return nil //nolint:nilerr // A user must decide about an unreadable state.
	}
	// A run that is missing from the cache may move the state back.
	if err := r.ensureRunsCurrent(ctx, s); err != nil {
		return err
	}
	if err := r.ensureExists(ctx, s); err != nil {
		return err
	}
	if !empty && !isOutdated(version, state) {
		if err := r.keepAsSnapshot(ctx, s, &secret, version.Lineage); err != nil {
			return err
		}
	}
	ctrl.LoggerFrom(ctx).Info("Deleting the outdated copy of a moved state", "secret", klog.KObj(&secret), "backend", state.Backend)
	err = r.Client.Delete(ctx, &secret, unchanged(&secret))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the outdated state: %w", err)
	}
	return nil
}

// isOutdated reports whether a version is that of the known state, or precedes it.
func isOutdated(version terraform.StateInfo, known *infrav1.StateStatus) bool {
	return version.Lineage != "" && version.Lineage == known.Lineage && version.Serial <= uint64(known.Serial)
}

// keepAsSnapshot stores the state of the default backend as a snapshot that is not
// pruned.
func (r *cleaner) keepAsSnapshot(ctx context.Context, s *workspace, state *corev1.Secret, lineage string) error {
	content, err := record.StateContent(state)
	if err != nil {
		return fmt.Errorf("decompressing the state: %w", err)
	}
	runID := record.NewRunID(s.apply.Name, s.nextNumber()-1)
	workspace := s.workspaceRef()
	meta := record.Meta(workspace, record.ComponentSnapshot, runID)
	meta.Annotations = map[string]string{record.KeepAnnotation: "true", record.LineageAnnotation: lineage}
	snapshot, err := record.Chunks(record.SnapshotName(runID, content), content, meta)
	if err != nil {
		return err
	}
	for _, secret := range snapshot {
		err := r.Client.Create(ctx, secret.DeepCopy())
		if apierrors.IsAlreadyExists(err) {
			// An earlier attempt has created it. Any pod of the namespace may create Secrets.
			var found corev1.Secret
			if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(secret), &found); err != nil {
				return fmt.Errorf("reading snapshot %s: %w", secret.Name, err)
			}
			if !maps.EqualFunc(found.Data, secret.Data, bytes.Equal) {
				return fmt.Errorf("snapshot %s has another content", secret.Name)
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("storing snapshot %s: %w", secret.Name, err)
		}
	}
	ctrl.LoggerFrom(ctx).Info("Kept a state that is not used any more as a snapshot", "secret", klog.KObj(snapshot[0]))
	return nil
}
