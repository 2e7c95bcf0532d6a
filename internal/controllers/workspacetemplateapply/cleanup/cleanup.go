// Package cleanup deletes what a workspace does not need any more, and what it leaves.
package cleanup

import (
	"context"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/record"
)

// CleanUp deletes or releases the objects of the workspace. The stored status must
// show the last result first: without records and status, a restarted manager
// would destroy again, forever, because the state is deleted.
func (r *Cleaner) CleanUp(ctx context.Context, s *runs.Workspace) error {
	if s.StatusChanged {
		return fault.WaitFor(1, clusterv1.DeletingReason, "Deleting the Secrets of the workspace")
	}
	if err := r.EnsureExists(ctx, s); err != nil {
		return err
	}
	// Before the records are deleted, which show what is left.
	if err := r.forget(ctx, s); err != nil {
		return err
	}
	deleted, released := components(s.Apply.Spec.RetainWorkspaceOnDelete)
	for _, component := range deleted {
		if err := r.DeleteSecrets(ctx, s, component); err != nil {
			return err
		}
	}
	if s.Apply.Spec.RetainWorkspaceOnDelete {
		if err := r.pruneSnapshots(ctx, s); err != nil {
			return err
		}
	}
	for _, component := range released {
		if err := r.ReleaseSecrets(ctx, s, component); err != nil {
			return err
		}
	}
	if err := r.DeleteLock(ctx, s); err != nil {
		return err
	}
	if err := r.DeleteRequests(ctx, s); err != nil {
		return err
	}
	r.Tracker.Set(s.Name(), nil)
	r.Counted.Delete(s.Apply.UID)
	r.Active.Delete(s.Apply.UID)
	return nil
}

// pruneSnapshots deletes the snapshots that a retained workspace has beyond its limit.
func (r *Cleaner) pruneSnapshots(ctx context.Context, s *runs.Workspace) error {
	snapshots, err := r.LiveSecrets(ctx, s, record.ComponentSnapshot)
	if err != nil {
		return err
	}
	return r.DeleteAll(ctx, s, SurplusSnapshots(snapshots, snapshotLimit(s.Apply)))
}

// DeleteLock deletes the lock of the Kubernetes backend.
func (r *Cleaner) DeleteLock(ctx context.Context, s *runs.Workspace) error {
	var lease coordinationv1.Lease
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.Apply.Namespace, Name: s.KubernetesBackend().LeaseName()}, &lease)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the lock: %w", err)
	}
	if err := r.EnsureExists(ctx, s); err != nil {
		return err
	}
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, &lease, runs.Unchanged(&lease))); err != nil {
		return fmt.Errorf("deleting the lock: %w", err)
	}
	return nil
}

// components returns the components whose Secrets are deleted with the
// workspace, and those of which the rest is released: outputs if the resources are
// retained, and the states and snapshots that are kept for the user.
func components(retain bool) (deleted, released []string) {
	deleted = []string{record.ComponentRun, record.ComponentPlan, record.ComponentTransfer}
	// Only a user can decide about a state that could not be saved.
	released = []string{record.ComponentRescue, record.ComponentSnapshot, record.ComponentState}
	if retain {
		return deleted, append(released, runs.ComponentConnection)
	}
	return append(deleted, record.ComponentSnapshot, runs.ComponentConnection, record.ComponentState), released
}

// forget removes what the executors keep for the workspace. If the resources are
// retained, it keeps a working directory that may have what is missing from the
// state: the first run of the next workspace of that name pushes it.
func (r *Cleaner) forget(ctx context.Context, s *runs.Workspace) error {
	for _, run := range s.Runs {
		if err := r.Runners.Forget(ctx, run); err != nil {
			return err
		}
	}
	if s.Apply.Spec.RetainWorkspaceOnDelete {
		results := s.Results()
		if len(results) == 0 && s.Apply.Status.Runs > 0 {
			// An earlier attempt has deleted the records and made this decision.
			return nil
		}
		if err := r.Runners.Retain(ctx, s.Ref()); err != nil {
			return err
		}
		if unsettled, err := r.Unsettled(ctx, s, results); err != nil || unsettled {
			return err
		}
	}
	for _, runner := range r.Runners {
		if err := runner.Remove(ctx, s.Ref()); err != nil {
			return fmt.Errorf("removing the working directory: %w", err)
		}
	}
	return nil
}

// DeleteSecrets deletes the Secrets of a component of the workspace.
func (r *Cleaner) DeleteSecrets(ctx context.Context, s *runs.Workspace, component string) error {
	secrets, err := r.LiveSecrets(ctx, s, component)
	if err != nil {
		return err
	}
	retained := false
	if component == record.ComponentSnapshot {
		states, err := r.LiveSecrets(ctx, s, record.ComponentState)
		if err != nil {
			return err
		}
		retained = slices.ContainsFunc(states, func(state corev1.Secret) bool { return isForeign(s, &state, false) })
	}
	return r.DeleteAll(ctx, s, slices.DeleteFunc(secrets, func(secret corev1.Secret) bool { return isForeign(s, &secret, retained) }))
}

// isForeign reports whether a state or a snapshot is that of an earlier workspace of the
// name, whose resources were retained and which this workspace has not used. Its labels
// have only the name. Retained means that such a state exists: without it, its snapshots
// are of no use.
func isForeign(s *runs.Workspace, secret *corev1.Secret, retained bool) bool {
	lineage := ""
	if s.Apply.Status.State != nil {
		lineage = s.Apply.Status.State.Lineage
	}
	switch secret.Labels[infrav1.ComponentLabel] {
	case record.ComponentState:
		empty, version, err := record.StateIsEmpty(secret)
		return err != nil || !empty && (lineage == "" || version.Lineage != lineage)
	case record.ComponentSnapshot:
		if lineage != "" && secret.Annotations[record.LineageAnnotation] == lineage {
			return false
		}
		return secret.Annotations[record.KeepAnnotation] != "" || retained && secret.Annotations[record.WorkspaceUIDAnnotation] != string(s.Apply.UID)
	}
	return false
}
