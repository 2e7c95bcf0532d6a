package v1beta1

import (
	"slices"
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
	// RequestedByAnnotation records who requested the one-shot operation: its ID, a space,
	// and the name of the user.
	RequestedByAnnotation = "capt.appthrust.io/requested-by"
	// ShellByAnnotation records who opened a shell, in the form of RequestedByAnnotation.
	ShellByAnnotation = "capt.appthrust.io/shell-by"
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

// CommentOf returns what a user wrote about a plan that was approved or rejected, or an
// empty string if there is nothing.
func CommentOf(apply *WorkspaceTemplateApply, plan string) string {
	about, text, _ := strings.Cut(apply.Annotations[CommentAnnotation], " ")
	if plan == "" || about != plan {
		return ""
	}
	return text
}

// RequesterOf returns the user who requested a one-shot operation, or an empty string if it
// is not known.
func RequesterOf(apply *WorkspaceTemplateApply, id string) string {
	return authorOf(apply, RequestedByAnnotation, id)
}

// ShellUserOf returns the user who opened a shell, or an empty string if it is not known.
func ShellUserOf(apply *WorkspaceTemplateApply, id string) string {
	return authorOf(apply, ShellByAnnotation, id)
}

func authorOf(apply *WorkspaceTemplateApply, annotation, id string) string {
	about, user, _ := strings.Cut(apply.Annotations[annotation], " ")
	if id == "" || about != id {
		return ""
	}
	return user
}

// maxEndedOneShots is the number of one-shot operations that a status remembers.
const maxEndedOneShots = 64

// OneShotEnded reports whether the one-shot operation with an ID has ended.
func (s *WorkspaceTemplateApplyStatus) OneShotEnded(id string) bool {
	return slices.Contains(s.EndedOneShots, id)
}

// EndOneShot records that the one-shot operation with an ID has ended.
func (s *WorkspaceTemplateApplyStatus) EndOneShot(id string) {
	others := slices.DeleteFunc(slices.Clone(s.EndedOneShots), func(ended string) bool { return ended == id })
	s.EndedOneShots = slices.Insert(others, 0, id)[:min(len(others)+1, maxEndedOneShots)]
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
