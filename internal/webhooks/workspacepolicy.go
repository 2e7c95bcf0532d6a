package webhooks

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/policy"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-workspacepolicy,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=workspacepolicies,versions=v1beta1,name=validation.workspacepolicy.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-clusterworkspacepolicy,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=clusterworkspacepolicies,versions=v1beta1,name=validation.clusterworkspacepolicy.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

var workspacePolicyRules = rules[*infrav1.WorkspacePolicy]{
	kind: &infrav1.WorkspacePolicy{},
	object: func(p *infrav1.WorkspacePolicy) field.ErrorList {
		spec := field.NewPath("spec")
		return append(checkSelector(spec.Child("selector"), p.Spec.Selector), checkPolicyRules(spec.Child("rules"), p.Spec.Rules)...)
	},
}

var clusterWorkspacePolicyRules = rules[*infrav1.ClusterWorkspacePolicy]{
	kind: &infrav1.ClusterWorkspacePolicy{},
	object: func(p *infrav1.ClusterWorkspacePolicy) field.ErrorList {
		spec := field.NewPath("spec")
		errs := checkSelector(spec.Child("selector"), p.Spec.Selector)
		errs = append(errs, checkSelector(spec.Child("namespaceSelector"), p.Spec.NamespaceSelector)...)
		return append(errs, checkPolicyRules(spec.Child("rules"), p.Spec.Rules)...)
	},
}

// refusedClusterPolicyRules refuse policies that would decide about nothing. Those that exist
// already can be deleted and labelled, but not changed: it would have no effect.
var refusedClusterPolicyRules = rules[*infrav1.ClusterWorkspacePolicy]{
	kind:   &infrav1.ClusterWorkspacePolicy{},
	object: func(*infrav1.ClusterWorkspacePolicy) field.ErrorList { return field.ErrorList{notEnforced()} },
	change: func(_ context.Context, before, after *infrav1.ClusterWorkspacePolicy) field.ErrorList {
		if equality.Semantic.DeepEqual(before.Spec, after.Spec) {
			return nil
		}
		return field.ErrorList{notEnforced()}
	},
}

func notEnforced() *field.Error {
	return field.Forbidden(field.NewPath("spec"),
		"the manager runs with --cluster-policies=false and would not enforce this policy: write a WorkspacePolicy in its namespace, or let the manager read ClusterWorkspacePolicies")
}

// checkPolicyRules rejects expressions that do not compile, have the wrong type, or are
// too expensive.
func checkPolicyRules(path *field.Path, list []infrav1.PolicyRule) field.ErrorList {
	var errs field.ErrorList
	for i, rule := range list {
		match := rule.Match
		if match == "" {
			match = infrav1.PolicyMatchEachChange
		}
		texts := map[string]string{"expression": rule.Expression, "messageExpression": rule.MessageExpression}
		for _, problem := range policy.Check(terraform.PolicyRule{
			Match: terraform.PolicyMatch(match), Expression: rule.Expression, MessageExpression: rule.MessageExpression,
		}) {
			errs = append(errs, invalid(path.Index(i).Child(problem.Field), texts[problem.Field], problem.Detail))
		}
	}
	return errs
}

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-workspacenotification,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=workspacenotifications,versions=v1beta1,name=validation.workspacenotification.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

var workspaceNotificationRules = rules[*infrav1.WorkspaceNotification]{
	kind: &infrav1.WorkspaceNotification{},
	object: func(n *infrav1.WorkspaceNotification) field.ErrorList {
		return checkSelector(field.NewPath("spec", "selector"), n.Spec.Selector)
	},
}
