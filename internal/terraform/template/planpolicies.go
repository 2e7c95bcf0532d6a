package template

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
)

// Kinds of policies.
const (
	kindPolicy        = "WorkspacePolicy"
	kindClusterPolicy = "ClusterWorkspacePolicy"
)

// PolicySources are the objects that the policies of a workspace are selected from.
type PolicySources struct {
	// Cluster are all ClusterWorkspacePolicies, Namespaced the WorkspacePolicies of Namespaces.
	Cluster    []infrav1.ClusterWorkspacePolicy
	Namespaced []infrav1.WorkspacePolicy
	// Apply is the workspace. Guest is that of another namespace for which it runs, or nil.
	Apply, Guest *infrav1.WorkspaceTemplateApply
	Template     *infrav1.WorkspaceTemplate
	// NamespaceLabels returns the labels of a namespace, and false if it does not exist. It is
	// called only if they decide.
	NamespaceLabels func(name string) (map[string]string, bool, error)
}

// subjects returns the workspaces that policies select.
func (s *PolicySources) subjects() []*infrav1.WorkspaceTemplateApply {
	if s.Guest == nil {
		return []*infrav1.WorkspaceTemplateApply{s.Apply}
	}
	return []*infrav1.WorkspaceTemplateApply{s.Apply, s.Guest}
}

// Namespaces returns the namespaces whose policies may select the workspace.
func (s *PolicySources) Namespaces() []string { return namespacesOf(s.subjects()) }

// PoliciesOf returns the policies that decide about the plans of a workspace, in a stable
// order, or nil. A policy that selects the workspace for which this one runs counts as well.
func PoliciesOf(s PolicySources) (*terraform.Policies, error) {
	subjects := s.subjects()
	var selected []terraform.Policy
	read := map[string]*metav1.ObjectMeta{}
	for i := range s.Cluster {
		p := &s.Cluster[i]
		applies, err := s.clusterPolicyApplies(p, read)
		if err != nil {
			return nil, err
		}
		if applies {
			selected = append(selected, policyOf(kindClusterPolicy, p, p.Spec.Rules))
		}
	}
	for i := range s.Namespaced {
		if p := &s.Namespaced[i]; selectsOne(p.Spec.Selector, subjects) {
			selected = append(selected, policyOf(kindPolicy, p, p.Spec.Rules))
		}
	}
	if stage := s.adoption(); stage != "" {
		selected = append(selected, adoptionPolicy(stage))
	}
	if len(selected) == 0 {
		return nil, nil
	}
	slices.SortFunc(selected, func(a, b terraform.Policy) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	// Rules see the workspace of the user.
	return s.newPolicies(selected, subjects[len(subjects)-1]), nil
}

// namespacesOf returns the namespaces of workspaces.
func namespacesOf(subjects []*infrav1.WorkspaceTemplateApply) []string {
	var namespaces []string
	for _, s := range subjects {
		if !slices.Contains(namespaces, s.Namespace) {
			namespaces = append(namespaces, s.Namespace)
		}
	}
	return namespaces
}

// selectsOne reports whether a selector selects one of the workspaces. One that runs for
// another has no labels of its own, so those of both count in both namespaces.
func selectsOne(selector *metav1.LabelSelector, subjects []*infrav1.WorkspaceTemplateApply) bool {
	return slices.ContainsFunc(subjects, func(s *infrav1.WorkspaceTemplateApply) bool { return Selects(selector, s.Labels) })
}

// clusterPolicyApplies reports whether a policy selects one of the workspaces. It reads the
// labels of a namespace only if they decide, and once for all policies. A namespace that does
// not exist is selected: a policy must not end with the namespace.
func (s *PolicySources) clusterPolicyApplies(p *infrav1.ClusterWorkspacePolicy, read map[string]*metav1.ObjectMeta) (bool, error) {
	if !selectsOne(p.Spec.Selector, s.subjects()) {
		return false, nil
	}
	if selectsAll(p.Spec.NamespaceSelector) {
		return true, nil
	}
	for _, name := range s.Namespaces() {
		namespace, known := read[name]
		if !known {
			found, exists, err := s.NamespaceLabels(name)
			if err != nil {
				return false, err
			}
			if exists {
				namespace = &metav1.ObjectMeta{Labels: found}
			}
			read[name] = namespace
		}
		if namespace == nil || Selects(p.Spec.NamespaceSelector, namespace.Labels) {
			return true, nil
		}
	}
	return false, nil
}

func selectsAll(selector *metav1.LabelSelector) bool {
	return selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0
}

// Selects reports whether a selector selects labels. One that is missing or invalid
// selects everything: a mistake must not disable a policy.
func Selects(selector *metav1.LabelSelector, set map[string]string) bool {
	if selectsAll(selector) {
		return true
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err != nil || parsed.Matches(labels.Set(set))
}

func policyOf(kind string, object metav1.Object, rules []infrav1.PolicyRule) terraform.Policy {
	return terraform.Policy{
		Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), Generation: object.GetGeneration(), Rules: PlanRules(rules),
	}
}

// newPolicies returns policies with what their rules see of a workspace and its template.
func (s *PolicySources) newPolicies(selected []terraform.Policy, apply *infrav1.WorkspaceTemplateApply) *terraform.Policies {
	key := s.Apply.Spec.TemplateRef.Key(s.Apply.Namespace)
	policies := &terraform.Policies{
		Policies: selected,
		Workspace: terraform.PolicyWorkspace{
			Namespace: apply.Namespace, Name: apply.Name, ClusterName: apply.Labels[clusterv1.ClusterNameLabel], Labels: apply.Labels,
		},
		Template: terraform.PolicyTemplate{Namespace: key.Namespace, Name: key.Name, Labels: s.Template.Labels},
	}
	if metadata := s.Template.Spec.Template.Metadata; metadata != nil {
		policies.Template.Version = metadata.Version
	}
	if !readLabels(selected) {
		// Their changes must not make a waiting plan be decided again.
		policies.Workspace.Labels, policies.Template.Labels = nil, nil
	}
	return policies
}

// readLabels reports whether a rule may read labels. An expression can name them otherwise
// only through a value without a type.
func readLabels(selected []terraform.Policy) bool {
	return slices.ContainsFunc(selected, func(p terraform.Policy) bool {
		return slices.ContainsFunc(p.Rules, func(rule terraform.PolicyRule) bool {
			text := rule.Expression + " " + rule.MessageExpression
			return strings.Contains(text, "labels") || strings.Contains(text, "dyn")
		})
	})
}

// PlanRules returns the rules of a policy for a request.
func PlanRules(rules []infrav1.PolicyRule) []terraform.PolicyRule {
	var converted []terraform.PolicyRule
	for _, rule := range rules {
		converted = append(converted, terraform.PolicyRule{
			Name: rule.Name, Match: terraform.PolicyMatch(cmp.Or(rule.Match, infrav1.PolicyMatchEachChange)), Action: terraform.PolicyAction(rule.Action),
			Expression: rule.Expression, Message: rule.Message, MessageExpression: rule.MessageExpression,
		})
	}
	return converted
}
