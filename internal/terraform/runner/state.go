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

// secretLimit is the size limit of a Secret's data, with room for its metadata.
const secretLimit = 1<<20 - 16<<10

// ensureState writes an empty state if there is none. The Kubernetes backend would
// do that too, but it would require the lock, which the run holds, and it would not
// set the owner of the Secret. A Secret without a state was created for a run that
// is not allowed to create Secrets.
func (r *Runner) ensureState(ctx context.Context, run *execution) error {
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
			"the Secret %s with the state is missing or empty, so nothing was done. Restore the state: set the annotation capt.appthrust.io/restore-snapshot to one of the Secrets with the label capt.appthrust.io/component=snapshot",
			request.Backend.StateSecretName()))
	}
	reserved := err == nil
	initial, err := run.session.InitialState(ctx)
	if err != nil {
		return err
	}
	data, err := record.Compress(initial)
	if err != nil {
		return fmt.Errorf("compressing an empty state: %w", err)
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

// readState returns the state as JSON. The tool decrypts an encrypted state.
func (r *Runner) readState(ctx context.Context, run *execution) ([]byte, error) {
	text, err := r.rawState(ctx, run)
	if err != nil {
		return nil, err
	}
	if _, err := command.ParseState(text); errors.Is(err, command.ErrEncrypted) {
		return run.session.StatePull(ctx)
	}
	return text, nil
}

// snapshot stores a copy of the state before a change. The copy of an encrypted
// state is encrypted. A state without resources has no snapshot.
func (r *Runner) snapshot(ctx context.Context, run *execution) error {
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
		run.printf("No snapshot is taken, because the encrypted state can only be read decrypted")
		return nil
	}
	name := record.SnapshotName(r.RunID)
	if err := r.store(ctx, run, name, record.ComponentSnapshot, text); err != nil {
		return fmt.Errorf("taking a snapshot of the state: %w", err)
	}
	run.result.Snapshot = record.ChunkName(name, 0)
	return nil
}

// rawState returns the state as the Kubernetes backend stores it. For other backends
// it returns the decrypted state.
func (r *Runner) rawState(ctx context.Context, run *execution) ([]byte, error) {
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
	state, err := record.Decompress(secret.Data[stateKey])
	return state, wrap("decompressing the state", err)
}

// replaceState writes a raw state to the backend.
func (r *Runner) replaceState(ctx context.Context, run *execution, raw []byte) error {
	if run.request.Backend.Type != terraform.BackendKubernetes {
		return run.session.StatePush(ctx, raw, true)
	}
	data, err := record.Compress(raw)
	if err != nil {
		return fmt.Errorf("compressing a state: %w", err)
	}
	patch, err := json.Marshal(map[string]any{"data": map[string][]byte{stateKey: data}})
	if err != nil {
		return fmt.Errorf("encoding a state: %w", err)
	}
	return wrap("writing the state", r.kube.patchSecret(ctx, run.request.Backend.Namespace, run.request.Backend.StateSecretName(), patch))
}

// store writes content to as many Secrets as it requires. Existing Secrets remain
// unchanged, so that an interrupted call can be repeated.
func (r *Runner) store(ctx context.Context, run *execution, name, component string, content []byte) error {
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

// load returns content that store wrote, and the first of its Secrets.
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

// rescue pushes the states that an earlier command could not save. It must precede
// all other commands, because they depend on the state.
func (r *Runner) rescue(ctx context.Context, run *execution) error {
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
			return errors.Join(err, r.storeRescued(ctx, run, state))
		}
		return fmt.Errorf("pushing a rescued state: %w", err)
	}
	return nil
}

// rescueAfter pushes the state that the operation could not save, and reports whether
// there was one. The backend may be unavailable for a while, so it retries until
// persistTimeout. It stores a state that the tool only printed in Secrets instead.
func (r *Runner) rescueAfter(ctx context.Context, run *execution, err error) (bool, error) {
	if failure := command.AsFailure(err); failure != nil && len(failure.State) > 0 {
		return false, r.storeRescued(ctx, run, failure.State)
	}
	files, err := command.RescuedState(r.workdir.Dir)
	if err != nil || len(files) == 0 {
		return false, err
	}
	run.printf("The state could not be saved, retrying")
	return true, persist(ctx, "saving the state", func(ctx context.Context) error {
		err := r.rescue(ctx, run)
		if failure := command.AsFailure(err); failure != nil && failure.StateTooLarge {
			return &permanentError{err}
		}
		return err
	})
}

// storeRescued stores a state that the backend does not accept in Secrets, so that it
// does not depend on the working directory.
func (r *Runner) storeRescued(ctx context.Context, run *execution, state []byte) error {
	name := "rescue-" + r.RunID
	if err := r.store(context.WithoutCancel(ctx), run, name, record.ComponentRescue, state); err != nil {
		return fmt.Errorf("storing a rescued state: %w", err)
	}
	run.printf("The state could not be saved to its backend. It is stored in Secret %s", record.ChunkName(name, 0))
	return nil
}
