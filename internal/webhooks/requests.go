package webhooks

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform/operation"
)

// +kubebuilder:webhook:verbs=create,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta1-workspaceapproval,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=workspaceapprovals,versions=v1beta1,name=default.workspaceapproval.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta1-workspaceoperation,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=workspaceoperations,versions=v1beta1,name=default.workspaceoperation.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-workspaceoperation,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=workspaceoperations,versions=v1beta1,name=validation.workspaceoperation.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

var workspaceApprovalRules = rules[*infrav1.WorkspaceApproval]{
	kind:   &infrav1.WorkspaceApproval{},
	object: func(*infrav1.WorkspaceApproval) field.ErrorList { return nil },
	record: recordApproval,
}

var workspaceOperationRules = rules[*infrav1.WorkspaceOperation]{
	kind:   &infrav1.WorkspaceOperation{},
	object: checkOperation,
	record: recordOperation,
}

// checkOperation rejects an operation that cannot be executed.
func checkOperation(o *infrav1.WorkspaceOperation) field.ErrorList {
	if err := operation.Validate(o); err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("spec", strings.ToLower(string(o.Spec.Type))), field.OmitValueType{}, err.Error())}
	}
	return nil
}

// maxRequester is the length of a user in the status of a workspace. Longer names are truncated
// there.
const maxRequester = 256

// recordApproval sets who decides, about which workspace, and whether it is his own change.
func recordApproval(ctx context.Context, reader client.Reader, a *infrav1.WorkspaceApproval) error {
	apply, err := recordRequest(ctx, reader, a, a.Spec.Workspace, &a.Spec.WorkspaceUID, &a.Spec.DecidedBy)
	if err != nil {
		return err
	}
	a.Spec.OwnChange = infrav1.OwnChangeYes
	if apply != nil && apply.UID == a.Spec.WorkspaceUID && isChangeOfAnother(apply, a.Spec.Plan, a.Spec.DecidedBy) {
		a.Spec.OwnChange = infrav1.OwnChangeNo
	}
	return nil
}

// recordOperation sets who requests an operation, and of which workspace.
func recordOperation(ctx context.Context, reader client.Reader, o *infrav1.WorkspaceOperation) error {
	_, err := recordRequest(ctx, reader, o, o.Spec.Workspace, &o.Spec.WorkspaceUID, &o.Spec.RequestedBy)
	return err
}

// recordRequest sets the user of a request and its workspace, and returns the workspace, or nil if
// it cannot be read. A request of another user is a copy, for example from a backup. It is refused:
// the original may have been executed and deleted since. A UID that is set stays: the request does
// not count for a workspace that was created since.
func recordRequest(ctx context.Context, reader client.Reader, obj client.Object, name string, uid *types.UID, by *string) (*infrav1.WorkspaceTemplateApply, error) {
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	refuse := func(err *field.Error) error {
		return apierrors.NewInvalid(infrav1.GroupVersion.WithKind(req.Kind.Kind).GroupKind(), obj.GetName(), field.ErrorList{err})
	}
	if user := req.UserInfo.Username; *by == "" {
		*by = user
	} else if *by != user {
		return nil, refuse(field.Forbidden(field.NewPath("spec"), fmt.Sprintf(
			"this is a copy of a request of %s, which counts once: create another one, without the fields that CAPT sets", *by)))
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		// The schema refuses it.
		return nil, nil
	}
	apply := &infrav1.WorkspaceTemplateApply{}
	switch err := reader.Get(ctx, client.ObjectKey{Namespace: req.Namespace, Name: name}, apply); {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err) && *uid != "":
		// The manager of another namespace reads no workspaces here, and a request of one that was
		// deleted counts for none.
		return nil, nil
	case apierrors.IsNotFound(err):
		return nil, refuse(invalid(field.NewPath("spec", "workspace"), name,
			fmt.Sprintf("workspace %q does not exist in namespace %q: write the name of a WorkspaceTemplateApply", name, req.Namespace)))
	case err != nil:
		return nil, apierrors.NewInternalError(fmt.Errorf("reading the workspace: %w", err))
	}
	if *uid == "" {
		*uid = apply.UID
	}
	return apply, nil
}

// isChangeOfAnother reports whether a plan is known to be that of another user: he neither changed
// or deleted the workspace or changed its state last, nor requested the plan.
func isChangeOfAnother(apply *infrav1.WorkspaceTemplateApply, plan, user string) bool {
	shown := apply.Status.Plan
	if shown == nil || shown.ID != plan {
		return false
	}
	authors := []string{apply.Annotations[infrav1.ChangedByAnnotation]}
	if guest, passed := apply.Annotations[infrav1.ChangedByGuestAnnotation]; passed || apply.Annotations[infrav1.HostedForAnnotation] != "" {
		authors = append(authors, guest)
	}
	if !apply.DeletionTimestamp.IsZero() {
		authors = append(authors, apply.Status.DeletedBy)
	}
	if request := shown.Request; request != nil {
		authors = append(authors, request.RequestedBy)
	}
	if by := apply.Status.StateChangedBy; by != "" {
		authors = append(authors, by)
	}
	recorded := message.Truncate(message.OneLine(user), maxRequester)
	return !slices.ContainsFunc(authors, func(author string) bool { return author == "" || author == user || author == recorded })
}
