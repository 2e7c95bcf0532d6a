package template

import (
	"slices"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// maxProtect is the number of patterns in the requirements of the status.
const maxProtect = 128

// RequirementsOf returns what a template requires for the resources that are created with it.
func RequirementsOf(t *infrav1.WorkspaceTemplate) *infrav1.StateRequirements {
	spec := t.Spec.Template.Spec
	return &infrav1.StateRequirements{
		TemplateRef: &infrav1.ObjectReference{Namespace: t.Namespace, Name: t.Name},
		Approval:    stricter(spec.Approval, ""), DestroyApproval: stricter(spec.DestroyApproval, ""),
		Protect: union(spec.Protect, nil),
	}
}

// MergeRequirements returns the stricter of two requirements for each setting. Each may be
// nil.
func MergeRequirements(a, b *infrav1.StateRequirements) *infrav1.StateRequirements {
	switch {
	case a == nil:
		return b.DeepCopy()
	case b == nil:
		return a.DeepCopy()
	}
	merged := &infrav1.StateRequirements{
		Approval: stricter(a.Approval, b.Approval), DestroyApproval: stricter(a.DestroyApproval, b.DestroyApproval),
		Protect: union(a.Protect, b.Protect),
	}
	if a.TemplateRef != nil && b.TemplateRef != nil && *a.TemplateRef == *b.TemplateRef {
		merged.TemplateRef = a.TemplateRef.DeepCopy()
	}
	return merged
}

// Covers reports whether requirements are at least as strict as others, which may be nil.
func Covers(required, others *infrav1.StateRequirements) bool {
	return others == nil ||
		stricter(required.Approval, others.Approval) == stricter(required.Approval, "") &&
			stricter(required.DestroyApproval, others.DestroyApproval) == stricter(required.DestroyApproval, "") &&
			!slices.ContainsFunc(others.Protect, func(p infrav1.ProtectPattern) bool { return !slices.Contains(required.Protect, p) })
}

// recorded returns the requirements for the resources of the workspace.
func (s *Sources) recorded() infrav1.StateRequirements {
	if state := s.Apply.Status.State; state != nil && state.Requirements != nil {
		return *state.Requirements
	}
	return infrav1.StateRequirements{}
}

// stricter returns Manual if one of the modes is, else an empty mode.
func stricter(a, b infrav1.ApprovalMode) infrav1.ApprovalMode {
	if a == infrav1.ApprovalManual || b == infrav1.ApprovalManual {
		return infrav1.ApprovalManual
	}
	return ""
}

// union returns the patterns of two lists in order, each of them once.
func union(a, b []infrav1.ProtectPattern) []infrav1.ProtectPattern {
	patterns := slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
	return patterns[:min(len(patterns), maxProtect)]
}
