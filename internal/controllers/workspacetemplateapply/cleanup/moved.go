package cleanup

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// PruneMoved deletes the Secret of the default backend if the state is in another one. A
// later workspace of the same name, or this one after another change of its backend,
// would use the outdated state in it. A state that is not an earlier version of the
// known one is kept as a snapshot: a user moved the state, or an earlier workspace of the
// same name left it.
func (r *Cleaner) PruneMoved(ctx context.Context, s *runs.Workspace) error {
	state := s.Apply.Status.State
	if s.Current() != nil || state == nil || state.Confirmation != infrav1.StateConfirmed || runs.UsesKubernetes(state, s.Runs) {
		return nil
	}
	cached, err := r.Secrets(ctx, s, record.ComponentState)
	if err != nil || len(cached) == 0 {
		return err
	}
	var secret corev1.Secret
	err = r.Reader.Get(ctx, client.ObjectKey{Namespace: s.Apply.Namespace, Name: s.KubernetesBackend().StateSecretName()}, &secret)
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
	if err := r.EnsureRunsCurrent(ctx, s); err != nil {
		return err
	}
	if err := r.EnsureExists(ctx, s); err != nil {
		return err
	}
	if !empty && !isOutdated(version, state) {
		if err := r.keepAsSnapshot(ctx, s, &secret, version.Lineage); err != nil {
			return err
		}
	}
	ctrl.LoggerFrom(ctx).Info("Deleting the outdated copy of a moved state", "secret", klog.KObj(&secret), "backend", state.Backend)
	if err := r.DeleteUnchanged(ctx, &secret); err != nil {
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
func (r *Cleaner) keepAsSnapshot(ctx context.Context, s *runs.Workspace, state *corev1.Secret, lineage string) error {
	content, err := record.StateContent(state)
	if err != nil {
		return fmt.Errorf("decompressing the state: %w", err)
	}
	runID := record.NewRunID(s.Apply.Name, s.NextNumber()-1)
	workspace := s.Ref()
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
