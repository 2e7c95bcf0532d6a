package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// +kubebuilder:webhook:verbs=delete,path=/delete-infrastructure-cluster-x-k8s-io-v1beta1-workspacetemplateapply,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,versions=v1beta1,name=deletion.workspacetemplateapply.infrastructure.cluster.x-k8s.io,sideEffects=NoneOnDryRun,admissionReviewVersions=v1

// deletionPath is where the API server reports deletions of workspaces.
const deletionPath = "/delete-infrastructure-cluster-x-k8s-io-v1beta1-workspacetemplateapply"

// deleters records who deletes a workspace, so that this user cannot approve the destruction of
// its resources alone. An admission response cannot change an object that is deleted, and no
// user can write its status. The API server may call the webhook with an outdated object from its
// cache, on which it then deletes nothing, and calls it again with the current one. So the record
// is written only to the version that the call is about.
type deleters struct{ client client.Client }

// Handle records the user of a deletion.
func (d deleters) Handle(ctx context.Context, req admission.Request) admission.Response {
	apply := &infrav1.WorkspaceTemplateApply{}
	if err := json.Unmarshal(req.OldObject.Raw, apply); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the object: %w", err))
	}
	user := req.UserInfo.Username
	if req.DryRun != nil && *req.DryRun || !apply.DeletionTimestamp.IsZero() || apply.Status.DeletedBy == user {
		return admission.Allowed("")
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": apply.UID, "resourceVersion": apply.ResourceVersion},
		"status":   map[string]any{"deletedBy": user},
	})
	if err == nil {
		err = d.client.Status().Patch(ctx, apply, client.RawPatch(types.MergePatchType, patch))
	}
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return admission.Allowed("")
	case apierrors.IsForbidden(err):
		// The manager of another namespace has no workspaces here.
		return admission.Allowed("")
	default:
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("recording who deletes the workspace: %w", err))
	}
}
