package template

import (
	"slices"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
)

// kindAdoption is the kind of the built-in policy of an adoption. No object has it.
const kindAdoption = "Adoption"

// AdoptionOf returns the stage of the adoption of a workspace, the earliest one of its template
// and of itself, or an empty one if nothing is adopted.
func AdoptionOf(template *infrav1.WorkspaceTemplate, applies ...*infrav1.WorkspaceTemplateApply) infrav1.AdoptionStage {
	stages := []infrav1.AdoptionStage{template.Spec.Template.Spec.Adoption}
	for _, apply := range applies {
		stages = append(stages, apply.Spec.Adoption)
	}
	for _, stage := range []infrav1.AdoptionStage{infrav1.AdoptionObserve, infrav1.AdoptionCommit} {
		if slices.Contains(stages, stage) {
			return stage
		}
	}
	return ""
}

func (s *PolicySources) adoption() infrav1.AdoptionStage {
	return AdoptionOf(s.Template, s.subjects()...)
}

// adoptionPolicy returns the policy of a stage. It also refuses the plan of a deletion that
// destroys: retainWorkspaceOnDelete releases the resources instead.
func adoptionPolicy(stage infrav1.AdoptionStage) terraform.Policy {
	policy := terraform.Policy{Kind: kindAdoption, Name: string(stage), Rules: []terraform.PolicyRule{{
		Name: "keeps", Match: terraform.MatchEachChange, Action: terraform.PolicyDeny,
		Expression: `"delete" in resource.actions`,
		MessageExpression: `"An adoption neither destroys nor replaces: " + resource.address +
			(size(resource.replacePaths) > 0 ? " is replaced because of " + resource.replacePaths[0] : "") +
			". Adjust the module or its variables, or set spec.retainWorkspaceOnDelete before a deletion"`,
	}}}
	every := terraform.PolicyRule{Name: "commit", Match: terraform.MatchPlan, Action: terraform.PolicyRequireApproval, Expression: "true", Message: "The resources are being adopted: approve this plan to take them over"}
	if stage == infrav1.AdoptionObserve {
		every.Name, every.Action = "observe", terraform.PolicyDeny
		every.Message = "The resources are being observed: nothing is changed before spec.adoption is Commit"
	}
	policy.Rules = append(policy.Rules, every)
	return policy
}
