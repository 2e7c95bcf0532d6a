package workspace

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// recordedName returns the name of the workspace in the status of an owner, which users
// cannot write, or an empty string.
func recordedName(owner client.Object) string {
	var ref *infrav1.LocalReference
	switch o := owner.(type) {
	case *infrav1.CAPTCluster:
		ref = o.Status.WorkspaceRef
	case *infrav1.CAPTMachine:
		ref = o.Status.WorkspaceRef
	case *infrav1.CAPTMachinePool:
		ref = o.Status.WorkspaceRef
	case *controlplanev1.CAPTControlPlane:
		ref = o.Status.WorkspaceRef
	}
	if ref == nil {
		return ""
	}
	return ref.Name
}

// findReleased returns the workspace in the status of an owner if it has no controlling owner
// any more, else nil. Another workspace instead of it would create all resources again.
func (k *Keeper) findReleased(ctx context.Context, owner client.Object, controlled []infrav1.WorkspaceTemplateApply) (*infrav1.WorkspaceTemplateApply, error) {
	name := recordedName(owner)
	if name == "" || slices.ContainsFunc(controlled, func(a infrav1.WorkspaceTemplateApply) bool { return a.Name == name }) {
		return nil, nil
	}
	var found infrav1.WorkspaceTemplateApply
	err := k.Client.Get(ctx, client.ObjectKey{Namespace: owner.GetNamespace(), Name: name}, &found)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading workspace %s: %w", name, err)
	case metav1.GetControllerOf(&found) != nil:
		return nil, nil
	}
	return &found, nil
}

// checkTaken returns a fault if the workspace in the status of an owner has another owner now.
func (k *Keeper) checkTaken(ctx context.Context, owner client.Object) error {
	name := recordedName(owner)
	if name == "" {
		return nil
	}
	var found infrav1.WorkspaceTemplateApply
	err := k.Live.Get(ctx, client.ObjectKey{Namespace: owner.GetNamespace(), Name: name}, &found)
	if apierrors.IsNotFound(err) || err == nil && metav1.IsControlledBy(&found, owner) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading workspace %s: %w", name, err)
	}
	if other := metav1.GetControllerOf(&found); other != nil {
		return fault.Stall(infrav1.WorkspaceNameTakenReason, "WorkspaceTemplateApply %s, which has the resources of this object, belongs to %s %s now: remove that owner from it", name, other.Kind, other.Name)
	}
	return nil
}

// hasController reports whether a workspace has the desired controlling owner, and no other
// owner with its UID. The garbage collector looks for owners by their names, and changes
// blockOwnerDeletion.
func hasController(found, desired *infrav1.WorkspaceTemplateApply) bool {
	want := metav1.GetControllerOf(desired)
	if want == nil {
		return true
	}
	return slices.ContainsFunc(found.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == want.UID }) &&
		!slices.ContainsFunc(found.OwnerReferences, func(r metav1.OwnerReference) bool {
			return r.UID == want.UID &&
				(r.Controller == nil || !*r.Controller || r.APIVersion != want.APIVersion || r.Kind != want.Kind || r.Name != want.Name)
		})
}
