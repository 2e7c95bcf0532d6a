package workspacetemplateapply

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
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// cleanUp deletes or releases the objects of the workspace. The stored status must
// show the last result first: without records and status, a restarted manager
// would destroy again, forever, because the state is deleted.
func (r *cleaner) cleanUp(ctx context.Context, s *workspace) error {
	if s.statusChanged {
		return fault.WaitFor(1, clusterv1.DeletingReason, "Deleting the Secrets of the workspace")
	}
	if err := r.ensureExists(ctx, s); err != nil {
		return err
	}
	// Before the records are deleted, which show what is left.
	if err := r.forget(ctx, s); err != nil {
		return err
	}
	deleted, released := cleanUpComponents(s.apply.Spec.RetainWorkspaceOnDelete)
	for _, component := range deleted {
		if err := r.deleteSecrets(ctx, s, component); err != nil {
			return err
		}
	}
	if s.apply.Spec.RetainWorkspaceOnDelete {
		if err := r.pruneSnapshots(ctx, s); err != nil {
			return err
		}
	}
	for _, component := range released {
		if err := r.releaseSecrets(ctx, s, component); err != nil {
			return err
		}
	}
	if err := r.deleteLock(ctx, s); err != nil {
		return err
	}
	r.tracker.set(s.name(), nil)
	r.counted.Delete(s.apply.UID)
	r.active.Delete(s.apply.UID)
	return nil
}

// pruneSnapshots deletes the snapshots that a retained workspace has beyond its limit.
func (r *cleaner) pruneSnapshots(ctx context.Context, s *workspace) error {
	snapshots, err := r.liveSecrets(ctx, s, record.ComponentSnapshot)
	if err != nil {
		return err
	}
	return r.deleteAll(ctx, s, surplusSnapshots(snapshots, snapshotLimit(s.apply)))
}

// ensureExists returns a conflict if the workspace does not exist any more. This manager
// was then suspended, and what has the names of the workspace's objects now may belong to
// the next workspace of its name. Whatever was read before belongs to this one.
func (r *store) ensureExists(ctx context.Context, s *workspace) error {
	live, err := r.live(ctx, s)
	if err != nil || live != nil {
		return err
	}
	return s.staleCache()
}

// deleteLock deletes the lock of the Kubernetes backend.
func (r *cleaner) deleteLock(ctx context.Context, s *workspace) error {
	var lease coordinationv1.Lease
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.apply.Namespace, Name: s.kubernetesBackend().LeaseName()}, &lease)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the lock: %w", err)
	}
	if err := r.ensureExists(ctx, s); err != nil {
		return err
	}
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, &lease, unchanged(&lease))); err != nil {
		return fmt.Errorf("deleting the lock: %w", err)
	}
	return nil
}

// unchanged lets the API server delete an object only as it was read. A state and its lock
// stay the same objects if a user removes the finalizer by force, and the next workspace of
// the name uses them.
func unchanged(obj client.Object) client.Preconditions {
	return client.Preconditions{UID: new(obj.GetUID()), ResourceVersion: new(obj.GetResourceVersion())}
}

// cleanUpComponents returns the components whose Secrets are deleted with the
// workspace, and those whose Secrets are released: snapshots, outputs and state
// if the resources are retained.
func cleanUpComponents(retain bool) (deleted, released []string) {
	deleted = []string{record.ComponentRun, record.ComponentPlan, record.ComponentTransfer}
	kept := []string{record.ComponentSnapshot, componentConnection, record.ComponentState}
	// Only a user can decide about a state that could not be saved.
	released = []string{record.ComponentRescue}
	if retain {
		return deleted, append(released, kept...)
	}
	return append(deleted, kept...), released
}

// forget removes what the executors keep for the workspace. If the resources are
// retained, it keeps a working directory that may have what is missing from the
// state: the first run of the next workspace of that name pushes it.
func (r *cleaner) forget(ctx context.Context, s *workspace) error {
	for _, run := range s.runs {
		if err := r.Runners.forget(ctx, run); err != nil {
			return err
		}
	}
	if s.apply.Spec.RetainWorkspaceOnDelete {
		results := s.results()
		if len(results) == 0 && s.apply.Status.Runs > 0 {
			// An earlier attempt has deleted the records and made this decision.
			return nil
		}
		if err := r.Runners.retain(ctx, s.workspaceRef()); err != nil {
			return err
		}
		if unsettled, err := r.unsettled(ctx, s, results); err != nil || unsettled {
			return err
		}
	}
	for _, runner := range r.Runners {
		if err := runner.Remove(ctx, s.workspaceRef()); err != nil {
			return fmt.Errorf("removing the working directory: %w", err)
		}
	}
	return nil
}

// retain leaves what the executors keep to the next workspace of the same name.
func (e executors) retain(ctx context.Context, workspace terraform.WorkspaceRef) error {
	for _, runner := range e {
		if retainer, ok := runner.(terraform.Retainer); ok {
			if err := retainer.Retain(ctx, workspace); err != nil {
				return fmt.Errorf("retaining the working directory: %w", err)
			}
		}
	}
	return nil
}

// forget removes what the executor of a run keeps for it.
func (e executors) forget(ctx context.Context, run *runRecord) error {
	runner, found := e[run.executor()]
	if !found {
		return nil
	}
	if err := runner.Forget(ctx, run.ref()); err != nil {
		return fmt.Errorf("forgetting run %s: %w", run.id, err)
	}
	return nil
}

// liveSecrets returns the Secrets of a component from the API server. The cache may not have
// those of the last run yet, and the garbage collector deletes what is not released.
func (r *store) liveSecrets(ctx context.Context, s *workspace, component string) ([]corev1.Secret, error) {
	var list corev1.SecretList
	labels := client.MatchingLabels{infrav1.WorkspaceLabel: record.LabelValue(s.apply.Name), infrav1.ComponentLabel: component}
	if err := r.Reader.List(ctx, &list, client.InNamespace(s.apply.Namespace), labels); err != nil {
		return nil, fmt.Errorf("listing the Secrets of the workspace: %w", err)
	}
	return s.withComponent(list.Items, component), nil
}

func (r *cleaner) deleteSecrets(ctx context.Context, s *workspace, component string) error {
	secrets, err := r.liveSecrets(ctx, s, component)
	if err != nil {
		return err
	}
	retained := false
	if component == record.ComponentSnapshot {
		states, err := r.liveSecrets(ctx, s, record.ComponentState)
		if err != nil {
			return err
		}
		retained = slices.ContainsFunc(states, func(state corev1.Secret) bool { return isForeign(s, &state, false) })
	}
	return r.deleteAll(ctx, s, slices.DeleteFunc(secrets, func(secret corev1.Secret) bool { return isForeign(s, &secret, retained) }))
}

// isForeign reports whether a state or a snapshot is that of an earlier workspace of the
// name, whose resources were retained and which this workspace has not used. Its labels
// have only the name. Retained means that such a state exists: without it, its snapshots
// are of no use.
func isForeign(s *workspace, secret *corev1.Secret, retained bool) bool {
	lineage := ""
	if s.apply.Status.State != nil {
		lineage = s.apply.Status.State.Lineage
	}
	switch secret.Labels[infrav1.ComponentLabel] {
	case record.ComponentState:
		empty, version, err := record.StateIsEmpty(secret)
		return err != nil || !empty && (lineage == "" || version.Lineage != lineage)
	case record.ComponentSnapshot:
		if lineage != "" && secret.Annotations[record.LineageAnnotation] == lineage {
			return false
		}
		return secret.Annotations[record.KeepAnnotation] != "" || retained && secret.Annotations[record.WorkspaceUIDAnnotation] != string(s.apply.UID)
	}
	return false
}

// deleteAll deletes Secrets as they were read.
func (r *store) deleteAll(ctx context.Context, s *workspace, secrets []corev1.Secret) error {
	if len(secrets) == 0 {
		return nil
	}
	if err := r.ensureExists(ctx, s); err != nil {
		return err
	}
	for i := range secrets {
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, &secrets[i], unchanged(&secrets[i]))); err != nil {
			return fmt.Errorf("deleting Secret %s: %w", secrets[i].Name, err)
		}
	}
	return nil
}

// releaseSecrets removes the owner references of Secrets, so that the garbage
// collector does not delete them.
func (r *store) releaseSecrets(ctx context.Context, s *workspace, component string) error {
	secrets, err := r.liveSecrets(ctx, s, component)
	if err != nil {
		return err
	}
	owned := slices.DeleteFunc(secrets, func(secret corev1.Secret) bool { return len(secret.OwnerReferences) == 0 })
	if len(owned) == 0 {
		return nil
	}
	if err := r.ensureExists(ctx, s); err != nil {
		return err
	}
	for i := range owned {
		released := owned[i].DeepCopy()
		released.OwnerReferences = nil
		if err := client.IgnoreNotFound(r.Client.Patch(ctx, released, client.MergeFromWithOptions(&owned[i], client.MergeFromWithOptimisticLock{}))); err != nil {
			return fmt.Errorf("releasing Secret %s: %w", released.Name, err)
		}
	}
	return nil
}
