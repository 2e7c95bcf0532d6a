package web

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/describe"
	"github.com/appthrust/capt/internal/message"
)

// maxAttention limits the workspaces that a row lists.
const maxAttention = 5

// newRow returns the row of a Cluster: the worst state of its tree with the cause.
func newRow(objects *describe.Objects) *Row {
	cluster := objects.Cluster
	row := &Row{
		Namespace: cluster.Namespace, Name: cluster.Name, Created: cluster.CreationTimestamp,
		Version: cluster.Spec.Topology.Version, Addons: map[string]Badge{},
		Paused: ptr.Deref(cluster.Spec.Paused, false), Deleting: !cluster.DeletionTimestamp.IsZero(),
	}
	if workers := cluster.Status.Workers; workers != nil {
		row.ReadyNodes, row.Nodes = ptr.Deref(workers.ReadyReplicas, 0), ptr.Deref(workers.DesiredReplicas, 0)
	}
	for _, item := range objects.Items {
		if owner, owned := describe.ClusterOf(item); !owned || owner != keyOf(cluster) {
			continue
		}
		row.addObject(item)
	}
	tree := describe.Build(objects, false)
	row.setStatus(tree)
	row.addAddons(tree)
	row.addAttention(tree)
	return row
}

// addObject adds what a row shows of an object.
func (r *Row) addObject(obj any) {
	switch obj := obj.(type) {
	case *infrav1.CAPTCluster:
		r.Region = cmp.Or(obj.Spec.Region, r.Region)
	case *controlplanev1.CAPTControlPlane:
		// A Cluster without a topology has its version here.
		r.Version = cmp.Or(obj.Status.Version, r.Version, obj.Spec.Version)
		if config := obj.Spec.ControlPlaneConfig; config != nil {
			r.Region = cmp.Or(r.Region, config.Region)
		}
	case *infrav1.WorkspaceTemplateApply:
		if obj.Status.Drift != nil {
			r.Drift += len(obj.Status.Drift.Resources)
		}
		if obj.Status.Failure != nil {
			r.Failing++
		}
		r.Policy = stricter(r.Policy, decisionOf(obj.Status.Plan))
	}
}

// policyActions are what policies decide, from the mildest to the strictest.
var policyActions = []infrav1.PolicyAction{infrav1.PolicyWarn, infrav1.PolicyRequireApproval, infrav1.PolicyDeny}

func stricter(a, b infrav1.PolicyAction) infrav1.PolicyAction {
	if slices.Index(policyActions, b) > slices.Index(policyActions, a) {
		return b
	}
	return a
}

// decisionOf returns what policies decided about a plan. Once it is applied, only warnings
// are left.
func decisionOf(plan *infrav1.PlanStatus) infrav1.PolicyAction {
	if plan == nil || !ptr.Deref(plan.Waiting, false) && plan.PolicyAction != infrav1.PolicyWarn {
		return ""
	}
	return plan.PolicyAction
}

// setStatus sets the status of a row to that of the worst node of the tree: the cause
// rather than its effect.
func (r *Row) setStatus(tree *describe.Node) {
	worst := describe.Worst(tree)
	r.State, r.Reason, r.Since = worst.State, worst.Reason, worst.Since
	if worst.State != describe.StateReady {
		r.Message = message.Truncate(worst.Summary(), maxMessage)
	}
}

// addAddons adds the state of each add-on.
func (r *Row) addAddons(tree *describe.Node) {
	for _, group := range tree.Children {
		if group.Kind != "Addons" {
			continue
		}
		for _, addon := range group.Children {
			r.Addons[addon.Name] = Badge{State: addon.State, Reason: addon.Reason}
		}
	}
}

// addAttention adds the workspaces that wait for a user.
func (r *Row) addAttention(n *describe.Node) {
	if n.Kind == "Workspace" && len(r.Attention) < maxAttention {
		if what := n.Attention(); what != "" {
			r.Attention = append(r.Attention, Attention{What: what, Workspace: n.Name})
		}
	}
	for _, child := range n.Children {
		r.addAttention(child)
	}
}

// newWorkspaceRow returns the row of a workspace in the list of all.
func newWorkspaceRow(apply *infrav1.WorkspaceTemplateApply) *WorkspaceRow {
	node := describe.WorkspaceNode(apply, false)
	worst := describe.Worst(node)
	row := &WorkspaceRow{
		Namespace: apply.Namespace, Name: apply.Name, Created: apply.CreationTimestamp, Template: apply.Spec.TemplateRef.Name,
		State: worst.State, Reason: worst.Reason, What: node.Attention(), Policy: decisionOf(apply.Status.Plan),
		Paused: conditions.IsTrue(apply, clusterv1.PausedCondition), Deleting: !apply.DeletionTimestamp.IsZero(),
	}
	if worst.State != describe.StateReady {
		row.Message = message.Truncate(worst.ProgressText(), maxMessage)
	}
	if cluster, owned := describe.ClusterOf(apply); owned {
		row.Cluster = cluster.Name
	}
	if state := apply.Status.State; state != nil {
		row.Resources = state.Resources
	}
	if drift := apply.Status.Drift; drift != nil {
		row.Drift = len(drift.Resources)
	}
	return row
}

// isClusterAPI reports whether an API version belongs to Cluster API or a provider.
func isClusterAPI(apiVersion string) bool {
	group, _, _ := strings.Cut(apiVersion, "/")
	return strings.HasSuffix("."+group, "."+clusterv1.GroupVersion.Group)
}
