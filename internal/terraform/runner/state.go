package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/record"
)

const stateKey = "tfstate"

// secretLimit is what one Secret can hold, with room for its metadata.
const secretLimit = 1<<20 - 16<<10

// ensureState writes an empty state where there is none. The Kubernetes backend
// would do it by itself, but under a lock of its own, which the run holds; and
// it would not say whose the state is. A Secret without a state was made for a
// run that may not create any.
func (r *Runner) ensureState(ctx context.Context, run *running) error {
	request := run.request
	if request.Backend.Type != terraform.BackendKubernetes {
		return nil
	}
	existing, err := r.kube.secret(ctx, request.Backend.Namespace, request.Backend.StateSecretName())
	if err != nil && !apierrors.IsNotFound(err) || err == nil && len(existing.Data[stateKey]) > 0 {
		return wrap("reading the state", err)
	}
	if request.ExpectState && request.Operation != terraform.OperationRestoreState {
		run.result.StateMissing = true
		return terminal("State missing", fmt.Errorf(
			"the Secret %s held the state of what was applied, and is gone or empty; nothing was done. Put it back: set the annotation capt.appthrust.io/restore-snapshot to one of the Secrets labelled capt.appthrust.io/component=snapshot",
			request.Backend.StateSecretName()))
	}
	reserved := err == nil
	initial, err := run.session.InitialState(ctx)
	if err != nil {
		return err
	}
	data, err := command.CompressState(initial)
	if err != nil {
		return err
	}
	state := map[string][]byte{stateKey: data}
	if reserved {
		patch, err := json.Marshal(map[string]any{"data": state})
		if err != nil {
			return fmt.Errorf("encoding an empty state: %w", err)
		}
		return wrap("writing an empty state", r.kube.patchSecret(ctx, existing.Namespace, existing.Name, patch))
	}
	meta := record.StateMeta(request)
	meta.Name = request.Backend.StateSecretName()
	secret := &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeOpaque, Data: state}
	return wrap("writing an empty state", r.kube.createSecret(ctx, secret))
}

// readState returns the state as text. An encrypted one is read by the tool.
func (r *Runner) readState(ctx context.Context, run *running) ([]byte, error) {
	text, err := r.rawState(ctx, run)
	if err != nil {
		return nil, err
	}
	if _, err := command.ParseState(text); errors.Is(err, command.ErrEncrypted) {
		return run.session.StatePull(ctx)
	}
	return text, nil
}

// snapshot keeps the state as it is before it changes, encrypted if it is. An
// empty state is not worth keeping.
func (r *Runner) snapshot(ctx context.Context, run *running) error {
	text, err := r.rawState(ctx, run)
	if err != nil {
		return fmt.Errorf("taking a snapshot of the state: %w", err)
	}
	state, err := command.ParseState(text)
	switch {
	case errors.Is(err, command.ErrEncrypted):
	case err != nil:
		return fmt.Errorf("taking a snapshot of the state: %w", err)
	case state.Resources == 0:
		return nil
	case run.request.Encryption != "":
		run.printf("No snapshot: the tool hands out the encrypted state only in the clear")
		return nil
	}
	name := record.SnapshotName(r.RunID)
	if err := r.store(ctx, run, name, record.ComponentSnapshot, text); err != nil {
		return fmt.Errorf("taking a snapshot of the state: %w", err)
	}
	run.result.Snapshot = record.ChunkName(name, 0)
	return nil
}

// rawState returns the state as its backend keeps it, where that can be seen.
func (r *Runner) rawState(ctx context.Context, run *running) ([]byte, error) {
	if run.request.Backend.Type != terraform.BackendKubernetes {
		return run.session.StatePull(ctx)
	}
	secret, err := r.kube.secret(ctx, run.request.Backend.Namespace, run.request.Backend.StateSecretName())
	if err != nil {
		return nil, fmt.Errorf("reading the state: %w", err)
	}
	if len(secret.Data[stateKey]) == 0 {
		return nil, nil
	}
	return command.DecompressState(secret.Data[stateKey])
}

// replaceState puts a raw state into its backend.
func (r *Runner) replaceState(ctx context.Context, run *running, raw []byte) error {
	if run.request.Backend.Type != terraform.BackendKubernetes {
		return run.session.StatePush(ctx, raw, true)
	}
	data, err := command.CompressState(raw)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"data": map[string][]byte{stateKey: data}})
	if err != nil {
		return fmt.Errorf("encoding a state: %w", err)
	}
	return wrap("writing the state", r.kube.patchSecret(ctx, run.request.Backend.Namespace, run.request.Backend.StateSecretName(), patch))
}

// store keeps a whole in Secrets; what is there already stays.
func (r *Runner) store(ctx context.Context, run *running, name, component string, content []byte) error {
	secrets, err := record.Chunks(name, content, record.Meta(run.request.Workspace, component, r.RunID))
	if err != nil {
		return err
	}
	if component == record.ComponentPlan {
		if err := record.SetChanges(secrets[0], run.result.Plan.Changes); err != nil {
			return err
		}
	}
	for _, secret := range secrets {
		if err := r.kube.createSecret(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("storing %s: %w", secret.Name, err)
		}
	}
	return nil
}

// load reads a whole back, with the first of its Secrets.
func (r *Runner) load(ctx context.Context, namespace, name string) ([]byte, *corev1.Secret, error) {
	first, err := r.kube.secret(ctx, namespace, record.ChunkName(name, 0))
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", name, err)
	}
	count, err := record.ChunkCount(first)
	if err != nil {
		return nil, nil, err
	}
	secrets := []*corev1.Secret{first}
	for i := 1; i < count; i++ {
		next, err := r.kube.secret(ctx, namespace, record.ChunkName(name, i))
		if err != nil {
			return nil, nil, fmt.Errorf("reading %s: %w", name, err)
		}
		secrets = append(secrets, next)
	}
	content, err := record.Join(secrets)
	return content, first, err
}

// rescue pushes back the states that an earlier command could not save. It goes
// before everything else: whatever follows works on the state.
func (r *Runner) rescue(ctx context.Context, run *running) error {
	files, err := command.RescuedState(r.workdir.Dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		err := run.session.PushRescued(ctx, file)
		if err == nil {
			continue
		}
		if failure := command.AsFailure(err); failure != nil && failure.StateTooLarge {
			state, readErr := os.ReadFile(file)
			if readErr != nil {
				return errors.Join(err, fmt.Errorf("reading a rescued state: %w", readErr))
			}
			return errors.Join(err, r.keepRescued(ctx, run, state))
		}
		return fmt.Errorf("pushing a rescued state: %w", err)
	}
	return nil
}

// rescueAfter pushes back what the operation could not save. The backend may be
// away for a while, so it tries until it succeeds or the patience ends; a state
// that was only printed is kept first. It tells whether there was a state to save.
func (r *Runner) rescueAfter(ctx context.Context, run *running, err error) (bool, error) {
	if failure := command.AsFailure(err); failure != nil && len(failure.State) > 0 {
		return false, r.keepRescued(ctx, run, failure.State)
	}
	files, err := command.RescuedState(r.workdir.Dir)
	if err != nil || len(files) == 0 {
		return false, err
	}
	run.printf("The state could not be saved; trying again until it is")
	return true, persist(ctx, "saving the state", func(ctx context.Context) error {
		err := r.rescue(ctx, run)
		if failure := command.AsFailure(err); failure != nil && failure.StateTooLarge {
			return &permanentError{err}
		}
		return err
	})
}

// keepRescued keeps a state that the backend does not take over as many Secrets
// as it needs, so that it outlives the working directory.
func (r *Runner) keepRescued(ctx context.Context, run *running, state []byte) error {
	name := "rescue-" + r.RunID
	if err := r.store(context.WithoutCancel(ctx), run, name, record.ComponentRescue, state); err != nil {
		return fmt.Errorf("keeping a rescued state: %w", err)
	}
	run.printf("The state could not be saved to its backend; it is kept in the Secret %s", record.ChunkName(name, 0))
	return nil
}
