package operate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// RequestCommand requests that the workspace executes a state command, whose ID is that of the
// operation. The input is the state to push, nil for other commands. With hold, the plan that
// follows waits for approval.
func RequestCommand(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, command *terraform.StateCommand, input []byte, hold bool) (*infrav1.WorkspaceOperation, error) {
	if err := checkStateChange(apply); err != nil {
		if _, paused := errors.AsType[*pausedError](err); paused && command.Command == terraform.StatePush {
			return nil, fmt.Errorf("%w. To push a state before anything is applied, use approval: Manual instead of a pause", err)
		}
		return nil, err
	}
	command.ID = uuid.NewString()
	if input != nil {
		command.Input = record.InputName(command.ID)
	}
	if err := command.Validate(); err != nil {
		return nil, err
	}
	if input != nil {
		if err := upload(ctx, c, apply, command.Input, input); err != nil {
			return nil, err
		}
	}
	operation, err := request(ctx, c, apply, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationState, Hold: hold, State: &infrav1.StateOptions{
		Command: command.Command, Args: addresses(command.Args), Input: command.Input, Force: command.Force,
		JSON: command.JSON, Sensitive: command.Sensitive, PublicKey: command.PublicKey,
	}})
	if err != nil && input != nil {
		err = errors.Join(err, DeleteTransfer(ctx, c, apply, command.Input))
	}
	command.ID = string(operation.UID)
	return operation, err
}

// patch edits a workspace and writes the difference.
func patch(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, edit func()) error {
	before := apply.DeepCopy()
	edit()
	if err := c.Patch(ctx, apply, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("updating workspace %s: %w", apply.Name, err)
	}
	return nil
}

// checkStateChange returns an error if the workspace executes no command.
func checkStateChange(apply *infrav1.WorkspaceTemplateApply) error {
	if err := checkHosted(apply); err != nil {
		return err
	}
	if err := CheckNotPaused(apply); err != nil {
		return err
	}
	return checkUsesState(apply)
}

// pausedError is the error if nothing happens with a workspace.
type pausedError struct{ error }

// CheckNotPaused returns an error if nothing happens with the workspace.
func CheckNotPaused(apply *infrav1.WorkspaceTemplateApply) error {
	if meta.IsStatusConditionTrue(apply.Status.Conditions, infrav1.PausedCondition) {
		return &pausedError{fmt.Errorf("%s is paused: nothing happens until you remove its annotation %s, or resume its Cluster", apply.Name, clusterv1.PausedAnnotation)}
	}
	return nil
}

// checkUsesState returns an error if the workspace has no further run. A workspace that
// is being deleted still needs its state to destroy its resources.
func checkUsesState(apply *infrav1.WorkspaceTemplateApply) error {
	if !apply.DeletionTimestamp.IsZero() && apply.Spec.RetainWorkspaceOnDelete {
		return fmt.Errorf("%s is being deleted and retains its resources: it does not use its state any more", apply.Name)
	}
	return nil
}

func upload(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, name string, content []byte) error {
	workspace := terraform.WorkspaceRef{Namespace: apply.Namespace, Name: apply.Name, UID: string(apply.UID)}
	secrets, err := record.Chunks(name, content, record.LocalMeta(workspace, record.ComponentTransfer, ""))
	if err != nil {
		return err
	}
	for _, secret := range secrets {
		if err := c.Create(ctx, secret); err != nil {
			return fmt.Errorf("storing the state: %w", err)
		}
	}
	return nil
}

// DeleteTransfer deletes a state that a command pulled or pushed.
func DeleteTransfer(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, name string) error {
	first := &corev1.Secret{}
	err := c.Get(ctx, client.ObjectKey{Namespace: apply.Namespace, Name: record.ChunkName(name, 0)}, first)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading Secret %s: %w", record.ChunkName(name, 0), err)
	}
	count, err := record.ChunkCount(first)
	if err != nil {
		return err
	}
	var errs []error
	// The first Secret has the number of the others, so it is deleted last.
	for i := count - 1; i >= 0; i-- {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: apply.Namespace, Name: record.ChunkName(name, i)}}
		if err := c.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting Secret %s: %w", secret.Name, err))
		}
	}
	return errors.Join(errs...)
}

// Output returns the output of a command, which is decrypted with the key. Any pod of
// the namespace may create Secrets, so the output must be the one that the run reported.
func Output(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, command *terraform.StateCommand, result *terraform.Result, key *record.Key) ([]byte, error) {
	secrets, err := chunks(ctx, c, apply, record.OutputName(command.ID))
	if err != nil {
		return nil, fmt.Errorf("reading the state: %w", err)
	}
	stored, err := record.Join(secrets)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(stored); hex.EncodeToString(sum[:]) != result.OutputDigest {
		return nil, fmt.Errorf("the output in Secret %s is not the one that run %s stored", record.ChunkName(record.OutputName(command.ID), 0), result.RunID)
	}
	return key.Open(stored)
}

// chunks returns the Secrets of a value that is stored in several.
func chunks(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, name string) ([]*corev1.Secret, error) {
	var secrets []*corev1.Secret
	for count := 1; len(secrets) < count; {
		secret := &corev1.Secret{}
		err := c.Get(ctx, client.ObjectKey{Namespace: apply.Namespace, Name: record.ChunkName(name, len(secrets))}, secret)
		if err == nil && len(secrets) == 0 {
			count, err = record.ChunkCount(secret)
		}
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, secret)
	}
	return secrets, nil
}

// CommandResult returns the result of the run of an operation.
func CommandResult(ctx context.Context, c client.Reader, operation *infrav1.WorkspaceOperation) (*terraform.Result, error) {
	run := operation.Status.Run
	if run == "" {
		return nil, fmt.Errorf("operation %s of %s: %s: %s", operation.Name, operation.Spec.Workspace, operation.Status.Phase, operation.Status.Message)
	}
	var secret corev1.Secret
	if err := c.Get(ctx, client.ObjectKey{Namespace: operation.Namespace, Name: record.SecretName(run)}, &secret); err != nil {
		return nil, fmt.Errorf("reading run %s: %w", run, err)
	}
	result, err := record.Result(&secret)
	if err == nil && result == nil {
		err = fmt.Errorf("run %s has no result: see captctl history %s", run, operation.Spec.Workspace)
	}
	return result, err
}

// RequestMove requests that the state moves to the backend of a provider config, or,
// if the name is empty, of the provider config of the template.
func RequestMove(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, config string, hold bool) (*infrav1.WorkspaceOperation, error) {
	if err := checkStateChange(apply); err != nil {
		return nil, err
	}
	t := &infrav1.WorkspaceTemplate{}
	if err := c.Get(ctx, apply.Spec.TemplateRef.Key(apply.Namespace), t); err != nil {
		return nil, fmt.Errorf("reading the template: %w", err)
	}
	if config != "" {
		err := c.Get(ctx, client.ObjectKey{Namespace: apply.Namespace, Name: config}, &infrav1.WorkspaceProviderConfig{})
		if apierrors.IsNotFound(err) {
			names, _ := Names(&infrav1.WorkspaceProviderConfigList{})(ctx, c, apply.Namespace)
			return nil, fmt.Errorf("namespace %s has no WorkspaceProviderConfig %s%s", apply.Namespace, config, message.Suggestion(config, names))
		}
		if err != nil {
			return nil, fmt.Errorf("reading WorkspaceProviderConfig %s: %w", config, err)
		}
	}
	earlier, err := operations(ctx, c, apply, openOf(infrav1.OperationMove))
	if err != nil {
		return nil, err
	}
	// It waits until the workspace uses the new config.
	move, err := request(ctx, c, apply, infrav1.WorkspaceOperationSpec{Type: infrav1.OperationMove, Hold: hold, Move: moveTo(apply, t, config, earlier)})
	if err != nil {
		return nil, err
	}
	err = patch(ctx, c, apply, func() {
		apply.Spec.ProviderConfigRef = nil
		if config != "" {
			apply.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: config}
		}
	})
	if err != nil {
		earlier = []*infrav1.WorkspaceOperation{move}
	}
	for _, replaced := range earlier {
		err = errors.Join(err, client.IgnoreNotFound(c.Delete(ctx, replaced)))
	}
	return move, err
}

// moveTo returns the move of the state to a provider config. While an earlier move waits, the
// state is still in the backend that it names.
func moveTo(apply *infrav1.WorkspaceTemplateApply, t *infrav1.WorkspaceTemplate, config string, earlier []*infrav1.WorkspaceOperation) *infrav1.MoveOptions {
	move := &infrav1.MoveOptions{To: config}
	if ref := apply.ProviderConfig(t); ref != nil {
		move.From = ref.Name
	}
	if len(earlier) > 0 {
		move.From = earlier[0].Spec.Move.From
	}
	if ref := t.Spec.Template.Spec.ProviderConfigRef; config == "" && ref != nil {
		move.To = ref.Name
	}
	return move
}

// Moved reports whether the state was moved. It returns an error if it is not moved
// without another request.
func Moved(apply *infrav1.WorkspaceTemplateApply, operation *infrav1.WorkspaceOperation) (bool, error) {
	s, move := &apply.Status, operation.Spec.Move
	if operation.Status.Phase == infrav1.OperationSucceeded {
		return true, nil
	}
	if operation.Ended() {
		return false, notMoved(apply, move, string(operation.Status.Phase), operation.Status.Message)
	}
	if ref := apply.Spec.ProviderConfigRef; ref != nil && ref.Name != move.To {
		return false, fmt.Errorf("spec.providerConfigRef was changed to %s: the state was not moved", ref.Name)
	}
	if s.Run != nil {
		return false, nil
	}
	if f := s.Failure; f != nil && f.Inputs == "move "+string(operation.UID) && f.NextAt.IsZero() {
		return false, notMoved(apply, move, f.Reason, f.Message)
	}
	c := Progress(apply)
	if c != nil && c.Reason == infrav1.InvalidStateCommandReason && c.ObservedGeneration == apply.Generation {
		return false, notMoved(apply, move, c.Reason, c.Message)
	}
	return false, nil
}

// Progress returns the condition that shows what the workspace does, or nil: Applied,
// or Destroyed if it is being deleted.
func Progress(apply *infrav1.WorkspaceTemplateApply) *metav1.Condition {
	if !apply.DeletionTimestamp.IsZero() {
		return meta.FindStatusCondition(apply.Status.Conditions, infrav1.DestroyedCondition)
	}
	return meta.FindStatusCondition(apply.Status.Conditions, infrav1.AppliedCondition)
}

// notMoved describes a move that failed and how to give it up.
func notMoved(apply *infrav1.WorkspaceTemplateApply, move *infrav1.MoveOptions, reason, message string) error {
	back := "--to " + move.From
	if move.From == "" {
		back = "--to-default"
	}
	backend := "its backend"
	if apply.Status.State != nil {
		backend = "backend " + apply.Status.State.Backend
	}
	return fmt.Errorf("the state was not moved and is still in %s: %s: %s. Fix the cause and run captctl reconcile %s, or give up with captctl state migrate-backend %s %s",
		backend, reason, strings.TrimSuffix(message, "."), apply.Name, apply.Name, back)
}
