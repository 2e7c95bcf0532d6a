package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/statefile"
)

// storage stores plans, snapshots, modules and rescued states in Secrets.
type storage struct {
	kube  *kube
	runID string
}

// loadContent returns the stored content of a module, or nil if it was deleted.
func (s *storage) loadContent(namespace string) func(ctx context.Context, name string) ([]byte, error) {
	return func(ctx context.Context, name string) ([]byte, error) {
		content, _, err := s.load(ctx, namespace, name)
		if isMissingContent(err) {
			return nil, nil
		}
		return content, err
	}
}

// snapshot stores a copy of the state before a change. The copy of an encrypted
// state is encrypted. A state without resources has no snapshot.
func (s *storage) snapshot(ctx context.Context, run *execution) error {
	text, err := run.rawState(ctx)
	if err != nil {
		return fmt.Errorf("taking a snapshot of the state: %w", err)
	}
	state, err := statefile.Parse(text)
	if err == nil {
		if err := run.verifyLineage(state.StateInfo); err != nil {
			return err
		}
	}
	switch {
	case errors.Is(err, statefile.ErrEncrypted):
	case err != nil:
		return fmt.Errorf("taking a snapshot of the state: %w", err)
	case state.Resources == 0:
		return nil
	case run.request.Encryption != "":
		// The tool decrypts the state of another backend.
		if text, err = run.session.EncryptState(ctx, text); err != nil {
			return fmt.Errorf("taking a snapshot of the state: %w", err)
		}
	}
	name := record.SnapshotName(s.runID, text)
	annotations := map[string]string{record.WorkspaceUIDAnnotation: run.request.Workspace.UID}
	if version, err := statefile.Identify(text); err == nil {
		annotations[record.LineageAnnotation] = version.Lineage
	}
	if err := s.store(ctx, run, name, record.ComponentSnapshot, text, annotations); err != nil {
		return fmt.Errorf("taking a snapshot of the state: %w", err)
	}
	run.result.Snapshot = record.ChunkName(name, 0)
	return nil
}

// store writes content to as many Secrets as it requires. Existing Secrets remain
// unchanged, so that an interrupted call can be repeated. The first Secret is written last: if it exists, the
// content is complete.
func (s *storage) store(ctx context.Context, run *execution, name, component string, content []byte, annotations map[string]string) error {
	id := s.runID
	if run.request.Operation == terraform.OperationShell {
		// The user stores it, and no run.
		id = ""
	}
	meta := record.Meta(run.request.Workspace, component, id)
	if run.request.Operation.Destroys() && component == record.ComponentPlan {
		// A foreground deletion of the workspace deletes everything that it owns, also
		// while the plan waits for approval.
		meta.OwnerReferences = nil
	}
	secrets, err := record.Chunks(name, content, meta)
	if err != nil {
		return err
	}
	if component == record.ComponentPlan && name != record.ChangesName(run.result.Plan.ID) {
		if err := record.SetChanges(secrets[0], run.changes); err != nil {
			return err
		}
		if digest := run.moduleDigest(); digest != "" {
			secrets[0].Annotations[record.ModuleAnnotation] = digest
		}
	}
	for _, secret := range slices.Backward(secrets) {
		maps.Copy(secret.Annotations, annotations)
		if err := s.kube.createSecret(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("storing %s: %w", secret.Name, err)
		}
	}
	return nil
}

// load returns content that store wrote, and the first of its Secrets.
func (s *storage) load(ctx context.Context, namespace, name string) ([]byte, *corev1.Secret, error) {
	first, err := s.kube.secret(ctx, namespace, record.ChunkName(name, 0))
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", name, err)
	}
	count, err := record.ChunkCount(first)
	if err != nil {
		return nil, nil, err
	}
	secrets := []*corev1.Secret{first}
	for i := 1; i < count; i++ {
		next, err := s.kube.secret(ctx, namespace, record.ChunkName(name, i))
		if err != nil {
			return nil, nil, fmt.Errorf("reading %s: %w", name, err)
		}
		secrets = append(secrets, next)
	}
	content, err := record.Join(secrets)
	return content, first, err
}
