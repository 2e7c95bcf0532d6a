package v1beta1

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations that the webhook of WorkspaceTemplateApplies writes. It replaces every other
// value.
const (
	// ChangedByAnnotation is the name of the user who changed the spec last, apart from
	// approvedPlan.
	ChangedByAnnotation = "capt.appthrust.io/changed-by"
	// ApprovedByAnnotation records who approved which plan, and when: see Approval.
	ApprovedByAnnotation = "capt.appthrust.io/approved-by"
)

// Approval is the record of an approved plan.
type Approval struct {
	// Plan is the ID of the plan.
	Plan string
	// At is when it was approved.
	At metav1.Time
	// By is the name of the user who approved it.
	By string
}

// String returns the text of the annotation.
func (a Approval) String() string {
	return a.Plan + " " + a.At.UTC().Format(time.RFC3339) + " " + a.By
}

// ApprovalOf returns the record of a workspace's approved plan, or nil if there is none.
func ApprovalOf(apply *WorkspaceTemplateApply) *Approval {
	parts := strings.SplitN(apply.Annotations[ApprovedByAnnotation], " ", 3)
	if len(parts) != 3 || parts[0] == "" || parts[0] != apply.Spec.ApprovedPlan {
		return nil
	}
	at, err := time.Parse(time.RFC3339, parts[1])
	if err != nil {
		return nil
	}
	return &Approval{Plan: parts[0], At: metav1.NewTime(at), By: parts[2]}
}
