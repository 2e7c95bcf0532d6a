package workspacetemplateapply

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

// Kinds of policies.
const (
	kindPolicy        = "WorkspacePolicy"
	kindClusterPolicy = "ClusterWorkspacePolicy"
)

// policiesOf returns the policies that decide about the plans of a workspace, or nil. A
// policy that selects the workspace for which this one runs counts as well.
func (r *Reconciler) policiesOf(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, tmpl *infrav1.WorkspaceTemplate) (*terraform.Policies, error) {
	subjects := []*infrav1.WorkspaceTemplateApply{apply}
	if namespace, name := apply.HostedFor(); namespace != "" {
		guest := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(guest), guest); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading workspace %s/%s: %w", namespace, name, err)
		}
		subjects = append(subjects, guest)
	}
	selected, err := r.selectedPolicies(ctx, subjects)
	if err != nil || len(selected) == 0 {
		return nil, err
	}
	expectViolations(selected)
	// Rules see the workspace of the user.
	return newPolicies(selected, subjects[len(subjects)-1], apply.Spec.TemplateRef.Key(apply.Namespace), tmpl), nil
}

// selectedPolicies returns the policies that select at least one of the workspaces, in a
// stable order.
func (r *Reconciler) selectedPolicies(ctx context.Context, subjects []*infrav1.WorkspaceTemplateApply) ([]terraform.Policy, error) {
	var selected []terraform.Policy
	var cluster infrav1.ClusterWorkspacePolicyList
	if err := r.Client.List(ctx, &cluster); err != nil {
		return nil, fmt.Errorf("listing ClusterWorkspacePolicies: %w", err)
	}
	read := map[string]*corev1.Namespace{}
	for i := range cluster.Items {
		p := &cluster.Items[i]
		applies, err := r.clusterPolicyApplies(ctx, p, subjects, read)
		if err != nil {
			return nil, err
		}
		if applies {
			selected = append(selected, policyOf(kindClusterPolicy, p, p.Spec.Rules))
		}
	}
	for _, namespace := range namespacesOf(subjects) {
		var list infrav1.WorkspacePolicyList
		if err := r.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("listing WorkspacePolicies: %w", err)
		}
		for i := range list.Items {
			p := &list.Items[i]
			if selectsOne(p.Spec.Selector, subjects) {
				selected = append(selected, policyOf(kindPolicy, p, p.Spec.Rules))
			}
		}
	}
	slices.SortFunc(selected, func(a, b terraform.Policy) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return selected, nil
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
	return slices.ContainsFunc(subjects, func(s *infrav1.WorkspaceTemplateApply) bool { return selects(selector, s.Labels) })
}

// clusterPolicyApplies reports whether a policy selects one of the workspaces. It reads a
// namespace only if its labels decide, and once for all policies. One that does not exist is
// selected: a policy must not end with the namespace.
func (r *Reconciler) clusterPolicyApplies(ctx context.Context, p *infrav1.ClusterWorkspacePolicy, subjects []*infrav1.WorkspaceTemplateApply, read map[string]*corev1.Namespace) (bool, error) {
	if !selectsOne(p.Spec.Selector, subjects) {
		return false, nil
	}
	if selectsAll(p.Spec.NamespaceSelector) {
		return true, nil
	}
	for _, name := range namespacesOf(subjects) {
		namespace, known := read[name]
		if !known {
			namespace = &corev1.Namespace{}
			err := r.Reader.Get(ctx, client.ObjectKey{Name: name}, namespace)
			if client.IgnoreNotFound(err) != nil {
				return false, fmt.Errorf("reading namespace %s: %w", name, err)
			}
			if err != nil {
				namespace = nil
			}
			read[name] = namespace
		}
		if namespace == nil || selects(p.Spec.NamespaceSelector, namespace.Labels) {
			return true, nil
		}
	}
	return false, nil
}

func selectsAll(selector *metav1.LabelSelector) bool {
	return selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0
}

// selects reports whether a selector selects labels. One that is missing or invalid
// selects everything: a mistake must not disable a policy.
func selects(selector *metav1.LabelSelector, set map[string]string) bool {
	if selectsAll(selector) {
		return true
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err != nil || parsed.Matches(labels.Set(set))
}

func policyOf(kind string, object client.Object, rules []infrav1.PolicyRule) terraform.Policy {
	return terraform.Policy{
		Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), Generation: object.GetGeneration(), Rules: template.PlanRules(rules),
	}
}

// newPolicies returns policies with what their rules see of a workspace and its template.
func newPolicies(selected []terraform.Policy, apply *infrav1.WorkspaceTemplateApply, templateKey client.ObjectKey, tmpl *infrav1.WorkspaceTemplate) *terraform.Policies {
	policies := &terraform.Policies{
		Policies: selected,
		Workspace: terraform.PolicyWorkspace{
			Namespace: apply.Namespace, Name: apply.Name, ClusterName: apply.Labels[clusterv1.ClusterNameLabel], Labels: apply.Labels,
		},
		Template: terraform.PolicyTemplate{Namespace: templateKey.Namespace, Name: templateKey.Name, Labels: tmpl.Labels},
	}
	if metadata := tmpl.Spec.Template.Metadata; metadata != nil {
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

// decidesAbout reports whether policies decide about the plan of an operation.
func decidesAbout(operation terraform.Operation) bool {
	switch operation {
	case terraform.OperationPlan, terraform.OperationPlanAndApply, terraform.OperationApply:
		return true
	default:
		return operation.Destroys()
	}
}

// workspacesOfPolicy returns the workspaces about whose plans a policy may decide. The
// labels of their namespaces are not read for it.
func (r *Reconciler) workspacesOfPolicy(ctx context.Context, obj client.Object) []ctrl.Request {
	var selector *metav1.LabelSelector
	switch p := obj.(type) {
	case *infrav1.WorkspacePolicy:
		selector = p.Spec.Selector
	case *infrav1.ClusterWorkspacePolicy:
		selector = p.Spec.Selector
	}
	return reconcile.Requests(ctx, r.Client, &infrav1.WorkspaceTemplateApplyList{}, func(apply *infrav1.WorkspaceTemplateApply) bool {
		guest, _ := apply.HostedFor()
		switch {
		case guest != "":
			// The labels of the guest count, too.
			return obj.GetNamespace() == "" || obj.GetNamespace() == apply.Namespace || obj.GetNamespace() == guest
		case obj.GetNamespace() != "" && obj.GetNamespace() != apply.Namespace:
			return false
		default:
			return selects(selector, apply.Labels)
		}
	})
}
