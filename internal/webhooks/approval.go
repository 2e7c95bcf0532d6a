package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// +kubebuilder:webhook:verbs=create;update,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta1-workspacetemplateapply,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,versions=v1beta1,name=default.workspacetemplateapply.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// authors records who changed a workspace, and who approved its plan with spec.approvedPlan.
type authors struct{}

// Default sets the annotations of authors.
func (authors) Default(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) error {
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	before := &infrav1.WorkspaceTemplateApply{}
	if req.Operation == admissionv1.Update {
		if err := json.Unmarshal(req.OldObject.Raw, before); err != nil {
			return fmt.Errorf("reading the object before the change: %w", err)
		}
	}
	setAuthors(before, apply, req.UserInfo.Username, time.Now())
	return nil
}

// setAuthors sets the annotations of a workspace that a user changes. Values of the user
// are replaced.
func setAuthors(before, after *infrav1.WorkspaceTemplateApply, user string, now time.Time) {
	if after.Spec.TemplateRef != before.Spec.TemplateRef && after.Spec.ApprovedPlan == before.Spec.ApprovedPlan {
		// The plan was approved with what the other template requires.
		after.Spec.ApprovedPlan = ""
	}
	changedBy, approvedBy := before.Annotations[infrav1.ChangedByAnnotation], before.Annotations[infrav1.ApprovedByAnnotation]
	if !reflect.DeepEqual(withoutApproval(before), withoutApproval(after)) {
		changedBy = user
	}
	switch plan := after.Spec.ApprovedPlan; {
	case plan == "":
		approvedBy = ""
	case plan != before.Spec.ApprovedPlan:
		approvedBy = infrav1.Approval{Plan: plan, At: metav1.NewTime(now), By: user}.String()
	}
	for name, value := range map[string]string{
		infrav1.ChangedByAnnotation: changedBy, infrav1.ApprovedByAnnotation: approvedBy,
	} {
		switch {
		case value == "":
			delete(after.Annotations, name)
		case after.Annotations == nil:
			after.Annotations = map[string]string{name: value}
		default:
			after.Annotations[name] = value
		}
	}
}

// withoutApproval returns the spec of a workspace without the approved plan.
func withoutApproval(apply *infrav1.WorkspaceTemplateApply) *infrav1.WorkspaceTemplateApplySpec {
	spec := apply.Spec.DeepCopy()
	spec.ApprovedPlan = ""
	return spec
}
