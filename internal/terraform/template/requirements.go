package template

import (
	"encoding/json"
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
// nil. If there are too many patterns, those of a stay, and a user decides about each plan:
// patterns of b may be missing.
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
	if slices.ContainsFunc(b.Protect, func(p infrav1.ProtectPattern) bool { return !slices.Contains(merged.Protect, p) }) {
		merged.Approval, merged.DestroyApproval = infrav1.ApprovalManual, infrav1.ApprovalManual
	}
	if a.TemplateRef != nil && b.TemplateRef != nil && *a.TemplateRef == *b.TemplateRef {
		merged.TemplateRef = a.TemplateRef.DeepCopy()
	}
	return merged
}

// GuestRequirementsAnnotation is the annotation of a workspace that runs for one of another
// namespace with what the users there require. What the users of its own namespace require is in
// its spec, which those of the other one cannot change.
const GuestRequirementsAnnotation = "capt.appthrust.io/required-by-guest"

// SpecRequirements returns what the spec of a workspace requires as the text of the annotation,
// or an empty text if it requires nothing.
func SpecRequirements(spec *infrav1.WorkspaceTemplateApplySpec) string {
	required := infrav1.StateRequirements{
		Approval: stricter(spec.Approval, ""), DestroyApproval: stricter(spec.DestroyApproval, ""), Protect: distinct(spec.Protect),
	}
	if required.Approval == "" && required.DestroyApproval == "" && len(required.Protect) == 0 {
		return ""
	}
	text, err := json.Marshal(required)
	if err != nil {
		panic(err) // It has texts only.
	}
	return string(text)
}

// GuestRequirements returns what the users of the guest of a workspace require. A text that
// cannot be read requires approval.
func GuestRequirements(apply *infrav1.WorkspaceTemplateApply) infrav1.StateRequirements {
	text, found := apply.Annotations[GuestRequirementsAnnotation]
	if !found {
		return infrav1.StateRequirements{}
	}
	required := infrav1.StateRequirements{}
	if err := json.Unmarshal([]byte(text), &required); err != nil {
		return infrav1.StateRequirements{Approval: infrav1.ApprovalManual, DestroyApproval: infrav1.ApprovalManual}
	}
	return required
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

// union returns the patterns of two lists in order, each of them once. If there are too many,
// those of the first list stay.
func union(a, b []infrav1.ProtectPattern) []infrav1.ProtectPattern {
	patterns := distinct(a)
	further := slices.DeleteFunc(distinct(b), func(p infrav1.ProtectPattern) bool { return slices.Contains(patterns, p) })
	patterns = append(patterns, further...)
	return slices.Sorted(slices.Values(patterns[:min(len(patterns), maxProtect)]))
}

func distinct(patterns []infrav1.ProtectPattern) []infrav1.ProtectPattern {
	return slices.Compact(slices.Sorted(slices.Values(patterns)))
}
