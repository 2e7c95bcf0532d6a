package workspace

import (
	"context"
	"fmt"

	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// Remove lets go of the workspace of an object and waits until it is gone. With
// retain what it made is left in place.
func (k *Keeper) Remove(ctx context.Context, owner client.Object, retain bool) error {
	apply, err := k.Find(ctx, owner)
	if err != nil || apply == nil {
		return err
	}
	// Whether resources stay is decided in the write that lets go: nobody may
	// destroy between the two.
	changed := apply.DeepCopy()
	changed.Spec.RetainWorkspaceOnDelete = retain
	controllerutil.RemoveFinalizer(changed, infrav1.WorkspaceHeldFinalizer)
	if changed.Spec.RetainWorkspaceOnDelete != apply.Spec.RetainWorkspaceOnDelete || len(changed.Finalizers) != len(apply.Finalizers) {
		patch := client.MergeFromWithOptions(apply, client.MergeFromWithOptimisticLock{})
		if err := client.IgnoreNotFound(k.Client.Patch(ctx, changed, patch)); err != nil {
			return fmt.Errorf("letting go of workspace %s: %w", apply.Name, err)
		}
	}
	if apply.DeletionTimestamp.IsZero() {
		if err := client.IgnoreNotFound(k.Client.Delete(ctx, apply)); err != nil {
			return fmt.Errorf("deleting workspace %s: %w", apply.Name, err)
		}
	}
	return destruction(apply)
}

// destruction tells how far a workspace is with its end.
func destruction(apply *infrav1.WorkspaceTemplateApply) error {
	destroyed := conditions.Get(apply, infrav1.DestroyedCondition)
	switch {
	case destroyed == nil || apply.DeletionTimestamp.IsZero():
		return fault.Wait(infrav1.WaitingForWorkspaceReason, "WorkspaceTemplateApply %s is being destroyed", apply.Name)
	case troubles[destroyed.Reason]:
		return fault.Stall(infrav1.WorkspaceFailedReason, "WorkspaceTemplateApply %s: %s", apply.Name, destroyed.Message)
	default:
		return fault.Wait(infrav1.WaitingForWorkspaceReason, "WorkspaceTemplateApply %s: %s", apply.Name, destroyed.Message)
	}
}
