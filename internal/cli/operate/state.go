package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// RequestCommand requests that the workspace executes a state command, and sets its
// ID. The input is the state to push, nil for other commands. With hold, the plan
// that follows waits for approval.
func RequestCommand(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, command *terraform.StateCommand, input []byte, hold bool) error {
	if err := checkPending(apply); err != nil {
		return err
	}
	command.ID = uuid.NewString()
	if input != nil {
		command.Input = record.InputName(command.ID)
	}
	if err := command.Validate(); err != nil {
		return err
	}
	text, err := json.Marshal(command)
	if err != nil {
		return fmt.Errorf("encoding the command: %w", err)
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
		apply.Annotations[infrav1.StateCommandAnnotation] = string(text)
	})
}

// checkPending returns an error if another command was not executed yet.
func checkPending(apply *infrav1.WorkspaceTemplateApply) error {
	if !apply.DeletionTimestamp.IsZero() {
		return fmt.Errorf("%s is being deleted", apply.Name)
	}
	pending, err := terraform.ParseStateCommand(apply.Annotations[infrav1.StateCommandAnnotation])
	if err == nil && pending.ID != apply.Status.HandledStateCommand {
		return fmt.Errorf("%s has not executed an earlier command yet (state %s): wait for it, or remove the annotation %s", apply.Name, pending.Command, infrav1.StateCommandAnnotation)
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

// Transfer returns a state that a command pulled.
func Transfer(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, name string) ([]byte, error) {
	var secrets []*corev1.Secret
	for count := 1; len(secrets) < count; {
		secret := &corev1.Secret{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: apply.Namespace, Name: record.ChunkName(name, len(secrets))}, secret); err != nil {
			return nil, fmt.Errorf("reading the state: %w", err)
		}
		if len(secrets) == 0 {
			var err error
			if count, err = record.ChunkCount(secret); err != nil {
				return nil, err
			}
		}
		secrets = append(secrets, secret)
	}
	return record.Join(secrets)
}

// CommandExecuted reports whether a state command was executed. It returns an error
// if it never will be.
func CommandExecuted(apply *infrav1.WorkspaceTemplateApply, command *terraform.StateCommand) (bool, error) {
	if apply.Status.HandledStateCommand == command.ID {
		return true, nil
	}
	if !apply.DeletionTimestamp.IsZero() {
		return false, fmt.Errorf("%s is being deleted: the command was not executed", apply.Name)
	}
	requested, err := terraform.ParseStateCommand(apply.Annotations[infrav1.StateCommandAnnotation])
	if err != nil || requested.ID != command.ID {
		return false, fmt.Errorf("another command replaced this one: see captctl history %s", apply.Name)
	}
	return false, nil
}

// CommandResult returns the result of an executed state command.
func CommandResult(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, command *terraform.StateCommand) (*terraform.Result, error) {
	var runs corev1.SecretList
	err := c.List(ctx, &runs, client.InNamespace(apply.Namespace), client.MatchingLabels{
		infrav1.WorkspaceLabel: record.LabelValue(apply.Name), infrav1.ComponentLabel: record.ComponentRun,
	})
	if err != nil {
		return nil, fmt.Errorf("listing the runs of %s: %w", apply.Name, err)
	}
	for i := range runs.Items {
		run := &runs.Items[i]
		if !metav1.IsControlledBy(run, apply) || !strings.HasSuffix(run.Annotations[record.InputsAnnotation], " "+command.ID) {
			continue
		}
		result, err := record.Result(run)
		if err != nil {
			return nil, err
		}
		if result != nil {
			return result, nil
		}
	}
	return nil, fmt.Errorf("the run of the command does not exist any more: see captctl history %s", apply.Name)
}

// RequestMove requests that the state moves to the backend of a provider config, or,
// if the name is empty, of the provider config of the template. It returns the ID of
// the request.
func RequestMove(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, config string, hold bool) (string, error) {
	if err := checkPending(apply); err != nil {
		return "", err
	}
	t := &infrav1.WorkspaceTemplate{}
	if err := c.Get(ctx, apply.Spec.TemplateRef.Key(apply.Namespace), t); err != nil {
		return "", fmt.Errorf("reading the template: %w", err)
	}
	if config != "" {
		if err := c.Get(ctx, client.ObjectKey{Namespace: apply.Namespace, Name: config}, &infrav1.WorkspaceProviderConfig{}); err != nil {
			return "", fmt.Errorf("reading WorkspaceProviderConfig %s: %w", config, err)
		}
	}
	move := moveTo(apply, t, config)
	text, err := json.Marshal(move)
	if err != nil {
		return "", fmt.Errorf("encoding the request: %w", err)
	}
	return move.ID, patch(ctx, c, apply, func() {
		if hold {
			apply.Spec.Approval = infrav1.ApprovalManual
		}
		apply.Spec.ProviderConfigRef = nil
		if config != "" {
			apply.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: config}
		}
		apply.Annotations[infrav1.MoveStateAnnotation] = string(text)
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

// Moved reports whether the state was moved, or whether its move failed and is not
// retried.
func Moved(apply *infrav1.WorkspaceTemplateApply, id string) bool {
	s := &apply.Status
	return s.HandledMove == id || s.Run == nil && s.Failure != nil && s.Failure.Inputs == "move "+id && s.Failure.NextAt.IsZero()
}
