package operate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// RequestCommand requests that the workspace executes a state command, and sets its
// ID and UID. The input is the state to push, nil for other commands. With hold, the plan
// that follows waits for approval.
func RequestCommand(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, command *terraform.StateCommand, input []byte, hold bool) error {
	if err := checkPending(apply); err != nil {
		if _, paused := errors.AsType[*pausedError](err); paused && command.Command == terraform.StatePush {
			return fmt.Errorf("%w. To push a state before anything is applied, use approval: Manual instead of a pause", err)
		}
		return err
	}
	command.ID, command.UID = uuid.NewString(), string(apply.UID)
	if input != nil {
		command.Input = record.InputName(command.ID)
	}
	if err := command.Validate(); err != nil {
		return err
	}
	if input != nil {
		if err := upload(ctx, c, apply, command.Input, input); err != nil {
			return err
		}
	}
	return patch(ctx, c, apply, func() {
		if hold {
			apply.Spec.Approval = infrav1.ApprovalManual
		}
		apply.Annotations[infrav1.StateCommandAnnotation] = encoded(command)
	})
}

// encoded returns a request as the value of an annotation. Requests have only strings, numbers and
// times, which can always be encoded.
func encoded(request any) string {
	content, _ := json.Marshal(request)
	return string(content)
}

// checkPending returns an error if another command was not executed yet.
func checkPending(apply *infrav1.WorkspaceTemplateApply) error {
	if err := checkHosted(apply); err != nil {
		return err
	}
	if err := CheckNotPaused(apply); err != nil {
		return err
	}
	if err := checkUsesState(apply); err != nil {
		return err
	}
	pending, err := terraform.ParseStateCommand(apply.Annotations[infrav1.StateCommandAnnotation])
	if err == nil && pending.ID != apply.Status.HandledStateCommand {
		return fmt.Errorf("%s has not executed an earlier command yet (state %s): wait for it, or remove it with kubectl annotate wsta %s %s-", apply.Name, pending.Command, apply.Name, infrav1.StateCommandAnnotation)
	}
	return nil
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

// RemoveCommand removes an executed command from the workspace, unless another one
// replaced it. A backup of the workspace then has no command.
func RemoveCommand(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, id string) error {
	return removeAnnotation(ctx, c, apply, infrav1.StateCommandAnnotation, func(live *infrav1.WorkspaceTemplateApply) bool {
		command, err := terraform.ParseStateCommand(live.Annotations[infrav1.StateCommandAnnotation])
		return err == nil && command.ID == id
	})
}

// WithdrawCommand removes a command that no run has begun to execute. It reports whether
// the command is not executed any more.
func WithdrawCommand(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, id string) (bool, error) {
	withdrawn := true
	err := removeAnnotation(ctx, c, apply, infrav1.StateCommandAnnotation, func(live *infrav1.WorkspaceTemplateApply) bool {
		command, err := terraform.ParseStateCommand(live.Annotations[infrav1.StateCommandAnnotation])
		waits := err == nil && command.ID == id
		run := live.Status.Run
		withdrawn = !waits || run == nil || run.Operation != infrav1.RunOperation(terraform.OperationStateCommand)
		return waits && withdrawn
	})
	return withdrawn && err == nil, err
}

// removeAnnotation removes an annotation of a workspace that has the expected value.
func removeAnnotation(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, name string, expected func(live *infrav1.WorkspaceTemplateApply) bool) error {
	err := patchLive(ctx, c, apply, func(live *infrav1.WorkspaceTemplateApply) error {
		if expected(live) {
			delete(live.Annotations, name)
		}
		return nil
	})
	return client.IgnoreNotFound(err)
}

// patchLive edits the current version of a workspace and writes the difference, again if another
// client has changed it meanwhile.
func patchLive(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, edit func(live *infrav1.WorkspaceTemplateApply) error) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		live := &infrav1.WorkspaceTemplateApply{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(apply), live); err != nil {
			return fmt.Errorf("reading workspace %s: %w", apply.Name, err)
		}
		before := live.DeepCopy()
		if err := edit(live); err != nil || equality.Semantic.DeepEqual(before, live) {
			return err
		}
		if err := c.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("updating workspace %s: %w", apply.Name, err)
		}
		return nil
	})
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

// CommandExecuted reports whether a state command was executed. It returns an error
// if it never will be.
func CommandExecuted(apply *infrav1.WorkspaceTemplateApply, command *terraform.StateCommand) (bool, error) {
	if apply.Status.HandledStateCommand == command.ID {
		return true, nil
	}
	requested, err := terraform.ParseStateCommand(apply.Annotations[infrav1.StateCommandAnnotation])
	if err != nil || requested.ID != command.ID {
		return false, fmt.Errorf("another command replaced this one: see captctl history %s", apply.Name)
	}
	return false, nil
}

// CommandResult returns the result of an executed state command. A move that was
// repeated has the result of the last run.
func CommandResult(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, id string) (*terraform.Result, error) {
	var runs corev1.SecretList
	err := c.List(ctx, &runs, client.InNamespace(apply.Namespace), client.MatchingLabels{
		infrav1.WorkspaceLabel: record.LabelValue(apply.Name), infrav1.ComponentLabel: record.ComponentRun,
	})
	if err != nil {
		return nil, fmt.Errorf("listing the runs of %s: %w", apply.Name, err)
	}
	var last *terraform.Result
	for i := range runs.Items {
		run := &runs.Items[i]
		if !metav1.IsControlledBy(run, apply) || !strings.HasSuffix(run.Annotations[record.InputsAnnotation], " "+id) {
			continue
		}
		result, err := record.Result(run)
		if err != nil {
			return nil, err
		}
		if result != nil && (last == nil || last.FinishedAt.Before(result.FinishedAt)) {
			last = result
		}
	}
	if last != nil {
		return last, nil
	}
	return nil, fmt.Errorf("the run of the command does not exist any more: see captctl history %s", apply.Name)
}

// RequestMove requests that the state moves to the backend of a provider config, or,
// if the name is empty, of the provider config of the template.
func RequestMove(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, config string, hold bool) (*terraform.Move, error) {
	if err := checkPending(apply); err != nil {
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
	move := moveTo(apply, t, config)
	return move, patch(ctx, c, apply, func() {
		if hold {
			apply.Spec.Approval = infrav1.ApprovalManual
		}
		apply.Spec.ProviderConfigRef = nil
		if config != "" {
			apply.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: config}
		}
		apply.Annotations[infrav1.MoveStateAnnotation] = encoded(move)
	})
}

// moveTo returns the request to move the state to a provider config. While an earlier
// request waits, the state is still in the backend that it names.
func moveTo(apply *infrav1.WorkspaceTemplateApply, t *infrav1.WorkspaceTemplate, config string) *terraform.Move {
	move := &terraform.Move{ID: uuid.NewString(), To: config}
	if ref := apply.ProviderConfig(t); ref != nil {
		move.From = ref.Name
	}
	earlier, err := terraform.ParseMove(apply.Annotations[infrav1.MoveStateAnnotation])
	if err == nil && earlier.ID != apply.Status.HandledMove && earlier.To == move.From {
		move.From = earlier.From
	}
	if ref := t.Spec.Template.Spec.ProviderConfigRef; config == "" && ref != nil {
		move.To = ref.Name
	}
	return move
}

// Moved reports whether the state was moved. It returns an error if it is not moved
// without another request.
func Moved(apply *infrav1.WorkspaceTemplateApply, move *terraform.Move) (bool, error) {
	s := &apply.Status
	if s.HandledMove == move.ID {
		return true, nil
	}
	requested, err := terraform.ParseMove(apply.Annotations[infrav1.MoveStateAnnotation])
	if err != nil || requested.ID != move.ID {
		return false, fmt.Errorf("another request replaced this one: see captctl history %s", apply.Name)
	}
	if ref := apply.Spec.ProviderConfigRef; ref != nil && ref.Name != move.To {
		return false, fmt.Errorf("spec.providerConfigRef was changed to %s: the state was not moved", ref.Name)
	}
	if s.Run != nil {
		return false, nil
	}
	if f := s.Failure; f != nil && f.Inputs == "move "+move.ID && f.NextAt.IsZero() {
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
func notMoved(apply *infrav1.WorkspaceTemplateApply, move *terraform.Move, reason, message string) error {
	back := "--to " + move.From
	if move.From == "" {
		back = "--to-default"
	}
	backend := "its backend"
	if apply.Status.State != nil {
		backend = "backend " + apply.Status.State.Backend
	}
	return fmt.Errorf("the state was not moved and is still in %s: %s: %s. Fix the cause and run captctl retry %s, or give up with captctl state move %s %s",
		backend, reason, strings.TrimSuffix(message, "."), apply.Name, apply.Name, back)
}
