package sources

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

// PoliciesOf returns the policies that decide about the plans of a workspace, or nil.
func (r *Resolver) PoliciesOf(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, tmpl *infrav1.WorkspaceTemplate) (*terraform.Policies, error) {
	sources := template.PolicySources{Apply: apply, Template: tmpl, NamespaceLabels: r.namespaceLabels(ctx)}
	if namespace, name := apply.HostedFor(); namespace != "" {
		sources.Guest = &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(sources.Guest), sources.Guest); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading workspace %s/%s: %w", namespace, name, err)
		}
	}
	if !r.NoClusterPolicies {
		var cluster infrav1.ClusterWorkspacePolicyList
		if err := r.Client.List(ctx, &cluster); err != nil {
			return nil, fmt.Errorf("listing ClusterWorkspacePolicies: %w", err)
		}
		sources.Cluster = cluster.Items
	}
	for _, namespace := range sources.Namespaces() {
		var list infrav1.WorkspacePolicyList
		if err := r.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("listing WorkspacePolicies: %w", err)
		}
		sources.Namespaced = append(sources.Namespaced, list.Items...)
	}
	return template.PoliciesOf(sources)
}

// namespaceLabels returns a function that reads the labels of a namespace, and returns false
// if it does not exist.
func (r *Resolver) namespaceLabels(ctx context.Context) func(string) (map[string]string, bool, error) {
	return func(name string) (map[string]string, bool, error) {
		namespace := &corev1.Namespace{}
		err := r.Reader.Get(ctx, client.ObjectKey{Name: name}, namespace)
		if client.IgnoreNotFound(err) != nil {
			return nil, false, fmt.Errorf("reading namespace %s: %w", name, err)
		}
		return namespace.Labels, err == nil, nil
	}
}

// WorkspacesOfPolicy returns the workspaces about whose plans a policy may decide. The
// labels of their namespaces are not read for it.
func (r *Resolver) WorkspacesOfPolicy(ctx context.Context, obj client.Object) []ctrl.Request {
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
			return template.Selects(selector, apply.Labels)
		}
	})
}
