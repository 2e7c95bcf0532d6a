package workspacetemplateapply

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

// requirementsAnnotation is the annotation of a run with what its template required when the
// run was created.
const requirementsAnnotation = "capt.appthrust.io/requirements"

// requirements keeps what the template of the existing resources requires in the status, and
// sets the policy of the next run. A user who may change the reference to the template, for
// example in the owner of the workspace, must not thereby switch approval or protection off:
// the requirements follow the template while it is used, and those of another one replace them
// only with an approved plan.
func (*Reconciler) requirements(_ context.Context, s *scope) error {
	if state := s.apply.Status.State; state != nil {
		state.Requirements = s.requirementsOf(state)
	}
	s.policy = template.PolicyOf(template.Sources{Apply: s.apply, Template: s.template})
	return nil
}

// requirementsOf returns the requirements of the resources of a state.
func (s *resolved) requirementsOf(state *infrav1.StateStatus) *infrav1.StateRequirements {
	current, known := s.apply.Spec.TemplateRef.Key(s.apply.Namespace), state.Requirements
	switch {
	case !inUse(state):
		return nil
	case known != nil && (known.TemplateRef == nil || keyOf(known.TemplateRef) != current):
		return known
	case s.template.Name == "":
		// It does not exist any more.
		return known
	default:
		return template.RequirementsOf(s.template)
	}
}

func keyOf(ref *infrav1.ObjectReference) client.ObjectKey {
	return client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
}

// createsResources reports whether an operation can create resources with the template.
func createsResources(operation terraform.Operation) bool {
	return operation == terraform.OperationPlanAndApply || operation == terraform.OperationApply
}

// required returns what the template of a new run requires, or nil if the run creates nothing
// with it.
func (s *resolved) required(operation terraform.Operation) *infrav1.StateRequirements {
	if s.sources.Template == nil || !createsResources(operation) {
		return nil
	}
	return template.RequirementsOf(s.sources.Template)
}

// requiredBy returns what the template of a recorded run required, or nil.
func requiredBy(run *runRecord) *infrav1.StateRequirements {
	text := run.secret.Annotations[requirementsAnnotation]
	if text == "" || !createsResources(run.operation()) {
		return nil
	}
	required := &infrav1.StateRequirements{}
	if err := json.Unmarshal([]byte(text), required); err != nil {
		return nil
	}
	return required
}

// recordRequirements records in the status what the template of a run that has ended
// requires. Until a user has approved a plan of the template, and it was applied, the known
// requirements hold as well, unless those of the template are as strict.
func (s *status) recordRequirements(known *infrav1.StateRequirements, run *runRecord, result *terraform.Result) {
	if known == nil {
		// The status was lost.
		previous, _ := s.previousState(run)
		known = requirementsIn(previous)
	}
	if required := requiredBy(run); required != nil {
		_, once := parseOneShotInputs(run.inputs())
		approved := run.operation() == terraform.OperationApply && !once
		succeeded := result.Outcome == terraform.OutcomeSucceeded || result.Outcome == terraform.OutcomeNoChanges
		if succeeded && (approved || template.Covers(required, known)) {
			known = required
		}
		known = template.MergeRequirements(known, required)
	}
	if state := s.apply.Status.State; state != nil {
		state.Requirements = known
	}
}

// requirementsIn returns the requirements of a state, or nil.
func requirementsIn(state *infrav1.StateStatus) *infrav1.StateRequirements {
	if state == nil {
		return nil
	}
	return state.Requirements
}

// former explains which settings only the template of the existing resources requires, and not
// the workspace or its current template. A text is empty if there is none.
type former struct{ approval, destroyApproval, protect string }

// formerRequirements returns what only the template of the existing resources requires.
func (s *scope) formerRequirements() former {
	known := requirementsIn(s.apply.Status.State)
	if known == nil || s.sources.Template == nil {
		return former{}
	}
	current, spec, guest := template.RequirementsOf(s.sources.Template), s.apply.Spec, template.GuestRequirements(s.apply)
	if template.Covers(current, known) {
		return former{}
	}
	name := "A WorkspaceTemplate that was applied before"
	if ref := known.TemplateRef; ref != nil {
		name = fmt.Sprintf("WorkspaceTemplate %s, which was applied before,", keyOf(ref))
	}
	now := client.ObjectKeyFromObject(s.sources.Template)
	result := former{protect: fmt.Sprintf(". %s protects further resources than %s, until a plan of %s is approved and applied", name, now, now)}
	if known.Approval == infrav1.ApprovalManual && cmp.Or(onlyManual(current.Approval), onlyManual(spec.Approval), guest.Approval) == "" {
		result.approval = fmt.Sprintf(". %s requires the approval. When the plan is applied, only the requirements of %s count", name, now)
	}
	if known.DestroyApproval == infrav1.ApprovalManual && cmp.Or(onlyManual(current.DestroyApproval), onlyManual(spec.DestroyApproval), guest.DestroyApproval) == "" {
		result.destroyApproval = fmt.Sprintf(". %s requires the approval, because no plan of %s was approved since", name, now)
	}
	if template.Covers(&infrav1.StateRequirements{Protect: slices.Concat(spec.Protect, guest.Protect, current.Protect)}, &infrav1.StateRequirements{Protect: known.Protect}) {
		result.protect = ""
	}
	return result
}
