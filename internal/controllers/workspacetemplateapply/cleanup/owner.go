package cleanup

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/object"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// ownerCheckInterval is how often a held workspace checks whether its owner was
// deleted by force. Workspaces have no watch on their owners.
const ownerCheckInterval = time.Minute

// WaitForOwner waits until the controller of the workspace removes the held
// finalizer. The garbage collector does not know the order in which a cluster is
// deleted, and the workspace of a cluster that is in use must not be destroyed.
func WaitForOwner(ctx context.Context, reader client.Reader, apply *infrav1.WorkspaceTemplateApply) error {
	if !controllerutil.ContainsFinalizer(apply, infrav1.WorkspaceHeldFinalizer) {
		return nil
	}
	if owner := metav1.GetControllerOf(apply); owner != nil {
		found, err := findOwner(ctx, reader, apply.Namespace, owner)
		if err != nil {
			return fmt.Errorf("reading the owner: %w", err)
		}
		if found != nil {
			return heldFault(owner, found)
		}
	}
	controllerutil.RemoveFinalizer(apply, infrav1.WorkspaceHeldFinalizer)
	return nil
}

// ownerPage is how many owners are read at a time. Users decide how large their metadata is.
const ownerPage = 20

// ownerKinds are the kinds whose controllers hold workspaces.
var ownerKinds = []schema.GroupKind{
	{Group: infrav1.GroupVersion.Group, Kind: "CAPTCluster"},
	{Group: infrav1.GroupVersion.Group, Kind: "CAPTMachine"},
	{Group: infrav1.GroupVersion.Group, Kind: "CAPTMachinePool"},
	{Group: controlplanev1.GroupVersion.Group, Kind: "CAPTControlPlane"},
}

// findOwner returns the object with the name of an owner, else the one with its UID, or nil. A
// user may have changed the name in the reference. Users choose the kind, too, so objects of other
// kinds are not listed.
func findOwner(ctx context.Context, reader client.Reader, namespace string, owner *metav1.OwnerReference) (*metav1.PartialObjectMetadata, error) {
	kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
	found := object.Metadata(kind)
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: owner.Name}, found)
	switch {
	case err == nil || !apierrors.IsNotFound(err):
		return found, err //nolint:wrapcheck // The caller wraps it.
	case slices.Contains(ownerKinds, kind.GroupKind()):
		return findOwnerByUID(ctx, reader, namespace, kind, owner.UID)
	default:
		return nil, nil
	}
}

// findOwnerByUID returns the object with a UID, or nil.
func findOwnerByUID(ctx context.Context, reader client.Reader, namespace string, kind schema.GroupVersionKind, uid types.UID) (*metav1.PartialObjectMetadata, error) {
	page := ""
	for {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := reader.List(ctx, list, client.InNamespace(namespace), client.Limit(ownerPage), client.Continue(page)); err != nil {
			return nil, err //nolint:wrapcheck // The caller wraps it.
		}
		for i := range list.Items {
			if list.Items[i].UID == uid {
				return &list.Items[i], nil
			}
		}
		if page = list.Continue; page == "" {
			return nil, nil
		}
	}
}

// heldFault waits while the owner exists. If an object of the same name has another UID, a
// user decides: the owner was deleted by force and created again, or a manager that was
// suspended gave the workspace back to an owner that does not exist any more.
func heldFault(owner *metav1.OwnerReference, found *metav1.PartialObjectMetadata) error {
	switch {
	case found.UID == owner.UID && found.Name != owner.Name && found.DeletionTimestamp.IsZero():
		return fault.WaitFor(ownerCheckInterval, infrav1.HeldByOwnerReason, "%s %s uses this workspace, whose owner reference has the name %s: correct it. The workspace is destroyed when its owner is deleted", owner.Kind, found.Name, owner.Name)
	case found.UID != owner.UID:
		return fault.WaitFor(ownerCheckInterval, infrav1.HeldByOwnerReason, "The owner of this workspace does not exist, but another %s %s does, which may use its resources: if it does not, remove the finalizer %s to destroy them", owner.Kind, owner.Name, infrav1.WorkspaceHeldFinalizer)
	case found.DeletionTimestamp.IsZero():
		return fault.WaitFor(ownerCheckInterval, infrav1.HeldByOwnerReason, "%s %s uses this workspace: the workspace is destroyed when its owner is deleted", owner.Kind, owner.Name)
	default:
		return fault.WaitFor(ownerCheckInterval, infrav1.HeldByOwnerReason, "%s %s is being deleted and has not released this workspace yet", owner.Kind, owner.Name)
	}
}
