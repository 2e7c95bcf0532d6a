package workspace

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// Remove deletes the workspace of an object with settings and waits until it is deleted.
// With retain, the resources of the workspace are not destroyed.
func (k *Keeper) Remove(ctx context.Context, owner client.Object, retain bool, settings *infrav1.WorkspaceSettings) error {
	apply, err := k.Find(ctx, owner)
	if err != nil || apply == nil {
		return err
	}
	if apply.DeletionTimestamp.IsZero() && !metav1.IsControlledBy(apply, owner) {
		return fault.Stall(infrav1.WorkspaceNameTakenReason, "WorkspaceTemplateApply %s, which has the resources of this object, has lost its owner: add the owner reference again to destroy them, or delete the workspace", apply.Name)
	}
	if changed, differs := released(apply, retain, settings); differs {
		patch := client.MergeFromWithOptions(apply, client.MergeFromWithOptimisticLock{})
		if err := client.IgnoreNotFound(k.Client.Patch(ctx, changed, patch)); err != nil {
			return fmt.Errorf("releasing workspace %s: %w", apply.Name, err)
		}
	}
	if apply.DeletionTimestamp.IsZero() {
		if err := client.IgnoreNotFound(k.Client.Delete(ctx, apply, client.Preconditions{UID: &apply.UID})); err != nil {
			return fmt.Errorf("deleting workspace %s: %w", apply.Name, err)
		}
	}
	return destruction(apply)
}

// released returns the workspace without the finalizer that holds it, and reports
// whether that is a change. Retain and settings are set in the same write, so that no run
// can destroy resources between two.
func released(apply *infrav1.WorkspaceTemplateApply, retain bool, settings *infrav1.WorkspaceSettings) (changed *infrav1.WorkspaceTemplateApply, differs bool) {
	changed = apply.DeepCopy()
	changed.Spec.RetainWorkspaceOnDelete = retain
	settings.ApplyTo(&changed.Spec)
	removed := controllerutil.RemoveFinalizer(changed, infrav1.WorkspaceHeldFinalizer)
	return changed, removed || !equality.Semantic.DeepEqual(changed.Spec, apply.Spec)
}

// destruction returns a wait for the deletion of a workspace, or a stall if a user
// has to act, with the message of the workspace.
func destruction(apply *infrav1.WorkspaceTemplateApply) error {
	destroyed := conditions.Get(apply, infrav1.DestroyedCondition)
	switch {
	case destroyed == nil || apply.DeletionTimestamp.IsZero():
		return fault.Wait(infrav1.WaitingForWorkspaceReason, "WorkspaceTemplateApply %s is being destroyed", apply.Name)
	case terminalReasons[destroyed.Reason]:
		return fault.Stall(infrav1.WorkspaceFailedReason, "WorkspaceTemplateApply %s: %s", apply.Name, destroyed.Message)
	case destroyed.Reason == infrav1.WaitingForApprovalReason:
		return fault.Wait(infrav1.WaitingForApprovalReason, "WorkspaceTemplateApply %s: %s", apply.Name, destroyed.Message)
	default:
		return fault.Wait(infrav1.WaitingForWorkspaceReason, "WorkspaceTemplateApply %s: %s", apply.Name, destroyed.Message)
	}
}

// DestroyingSince returns the time since which the workspace of an object has been
// destroying, if it began to wait at the given time. The time in which a plan waited for
// approval does not count.
func (k *Keeper) DestroyingSince(ctx context.Context, owner client.Object, since time.Time) (time.Time, error) {
	apply, err := k.Find(ctx, owner)
	if err != nil || apply == nil {
		return since, err
	}
	return destroyingSince(apply, since), nil
}

// applyDestroy is the operation of a run that destroys according to an approved plan.
const applyDestroy = infrav1.RunOperation("ApplyDestroy")

func destroyingSince(apply *infrav1.WorkspaceTemplateApply, since time.Time) time.Time {
	var started []time.Time
	if run := apply.Status.Run; run != nil && run.Operation == applyDestroy {
		started = append(started, run.StartedAt.Time)
	}
	for _, run := range apply.Status.History {
		if run.Operation == applyDestroy {
			started = append(started, run.StartedAt.Time)
		}
	}
	if len(started) > 0 && started[len(started)-1].After(since) {
		// The history has the newest run first.
		return started[len(started)-1]
	}
	return since
}
