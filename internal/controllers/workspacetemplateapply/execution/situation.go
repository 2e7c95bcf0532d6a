package execution

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform/operation"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// onlyManual returns an approval mode if it requires approval.
func onlyManual(mode infrav1.ApprovalMode) infrav1.ApprovalMode {
	if mode != infrav1.ApprovalManual {
		return ""
	}
	return mode
}

// Situation returns what decides the next run.
func (s *Scope) Situation() decision.Situation {
	status := s.Apply.Status
	next := decision.Situation{
		Inputs: s.Inputs.Hash, AppliedInputs: status.AppliedInputs, Policy: s.Inputs.Policy,
		Requested: s.RunRequested(), DriftCheckAsked: s.DriftCheckRequested(), Restore: s.restoreID(),
		ApprovedPlan: s.ApprovedPlan(), RejectedPlan: s.RejectedPlan(),
		StateBackend: runs.StateBackend(status.State), ConfiguredBackend: runs.BackendName(s.Inputs.Request.Backend), MovedBackend: s.MovedBackend(),
		BackendProvable: runs.CanProve(status.State, s.Inputs.Request.Backend),
		Policies:        s.Policies.Digest(),
		Protect:         s.Inputs.Request.Protect, Unprotected: s.Unprotected(planInputs(status.Plan)), Plan: status.Plan, Failure: status.Failure, Drift: status.Drift,
		Move: s.ResolvedMove(), IsOwned: metav1.GetControllerOf(s.Apply) != nil, Former: s.FormerRequirements(),
		LastApplied: status.AppliedAt.Time, Jitter: decision.Jitter(s.Apply), Now: s.Now,
	}
	if !s.isOfTemplate(status.Plan) {
		next.Plan = nil
	}
	if status.HeldBy != "" {
		next.Policy.Approval = infrav1.ApprovalManual
		next.Interrupted = status.HeldBy == status.InterruptedBy
	}
	if o := s.PendingCommand(); o != nil {
		next.Command = operation.StateCommand(o)
	}
	if o := s.PendingOneShot(); o != nil {
		next.OneShot = operation.OneShot(o)
	}
	return next
}

// isOfTemplate reports whether a plan was made with the template of the workspace. Who approved one
// with what another template requires has not decided about this one.
func (s *Scope) isOfTemplate(plan *infrav1.PlanStatus) bool {
	current := s.OutputsSource()
	if plan == nil || current == nil {
		return true
	}
	for _, run := range s.Runs {
		used := &infrav1.OutputsSource{}
		if text := run.Secret.Annotations[record.ObjectsAnnotation]; run.ID == plan.Run && json.Unmarshal([]byte(text), used) == nil {
			return used.TemplateRef == current.TemplateRef
		}
	}
	return true
}

// restoreID returns the ID of the operation that restores a snapshot, or an empty string.
func (s *Scope) restoreID() string {
	if o := s.PendingRestore(); o != nil {
		return string(o.UID)
	}
	return ""
}

// planInputs returns the inputs of a plan, or an empty string if there is none.
func planInputs(plan *infrav1.PlanStatus) string {
	if plan == nil {
		return ""
	}
	return plan.Inputs
}

// FormerRequirements returns what only the template of the existing resources requires.
func (s *Scope) FormerRequirements() decision.Former {
	known := runs.RequirementsIn(s.Apply.Status.State)
	if known == nil || s.Sources.Template == nil {
		return decision.Former{}
	}
	current, spec, guest := template.RequirementsOf(s.Sources.Template), s.Apply.Spec, template.GuestRequirements(s.Apply)
	if template.Covers(current, known) {
		return decision.Former{}
	}
	name := "A WorkspaceTemplate that was applied before"
	if ref := known.TemplateRef; ref != nil {
		name = fmt.Sprintf("WorkspaceTemplate %s, which was applied before,", runs.KeyOf(ref))
	}
	now := client.ObjectKeyFromObject(s.Sources.Template)
	result := decision.Former{Protect: fmt.Sprintf(". %s protects further resources than %s, until a plan of %s is approved and applied", name, now, now)}
	if known.Approval == infrav1.ApprovalManual && cmp.Or(onlyManual(current.Approval), onlyManual(spec.Approval), guest.Approval) == "" {
		result.Approval = fmt.Sprintf(". %s requires the approval. When the plan is applied, only the requirements of %s count", name, now)
	}
	if known.DestroyApproval == infrav1.ApprovalManual && cmp.Or(onlyManual(current.DestroyApproval), onlyManual(spec.DestroyApproval), guest.DestroyApproval) == "" {
		result.DestroyApproval = fmt.Sprintf(". %s requires the approval, because no plan of %s was approved since", name, now)
	}
	if template.Covers(&infrav1.StateRequirements{Protect: slices.Concat(spec.Protect, guest.Protect, current.Protect)}, &infrav1.StateRequirements{Protect: known.Protect}) {
		result.Protect = ""
	}
	return result
}

// destroyApproved reports whether the plan of the deletion that waits is approved.
func (s *Scope) destroyApproved() bool {
	plan := s.Apply.Status.Plan
	return decision.IsDestroyPlan(plan) && s.ApprovedPlan() == plan.ID
}
