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
	"github.com/appthrust/capt/internal/terraform"
)

// +kubebuilder:webhook:verbs=create;update,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta1-workspacetemplateapply,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,versions=v1beta1,name=default.workspacetemplateapply.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// authors records who changed a workspace, who approved its plan, who requested a one-shot
// operation and who opened a shell. A comment belongs to the request that approves or rejects the plan, so that it cannot be changed later.
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
	comment := before.Annotations[infrav1.CommentAnnotation]
	if plan := decidedPlan(before, after); plan != "" {
		// A comment that was there before is not that of this user.
		if written := after.Annotations[infrav1.CommentAnnotation]; written == comment || infrav1.CommentOf(after, plan) == "" {
			comment = ""
		} else {
			comment = written
		}
	}
	for name, value := range map[string]string{
		infrav1.ChangedByAnnotation: changedBy, infrav1.ApprovedByAnnotation: approvedBy, infrav1.CommentAnnotation: comment,
		infrav1.RequestedByAnnotation: requestedBy(before, after, user), infrav1.ShellByAnnotation: shellBy(before, after, user),
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

// requestedBy returns who requested the one-shot operation. A request that is edited is that
// of the last user.
func requestedBy(before, after *infrav1.WorkspaceTemplateApply, user string) string {
	request := after.Annotations[infrav1.OneShotAnnotation]
	if request == before.Annotations[infrav1.OneShotAnnotation] {
		return before.Annotations[infrav1.RequestedByAnnotation]
	}
	operation, err := terraform.ParseOneShot(request)
	if err != nil {
		return ""
	}
	return operation.ID + " " + user
}

// shellBy returns who opened the shell. One that is edited is that of the last user.
func shellBy(before, after *infrav1.WorkspaceTemplateApply, user string) string {
	text := after.Annotations[infrav1.ShellAnnotation]
	if text == before.Annotations[infrav1.ShellAnnotation] {
		return before.Annotations[infrav1.ShellByAnnotation]
	}
	shell, err := terraform.ParseShell(text)
	if err != nil {
		return ""
	}
	return shell.ID + " " + user
}

// decidedPlan returns the plan that a change approves or rejects, or an empty string. A plan
// that stays approved keeps the comment of its approver.
func decidedPlan(before, after *infrav1.WorkspaceTemplateApply) string {
	approved, rejected := after.Spec.ApprovedPlan, after.Annotations[infrav1.RejectPlanAnnotation]
	switch {
	case approved != "" && approved != before.Spec.ApprovedPlan:
		return approved
	case rejected != approved && rejected != before.Annotations[infrav1.RejectPlanAnnotation]:
		return rejected
	default:
		return ""
	}
}

// withoutApproval returns the spec of a workspace without the approved plan.
func withoutApproval(apply *infrav1.WorkspaceTemplateApply) *infrav1.WorkspaceTemplateApplySpec {
	spec := apply.Spec.DeepCopy()
	spec.ApprovedPlan = ""
	return spec
}
