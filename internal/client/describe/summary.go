package describe

import (
	"cmp"
	"fmt"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
)

// Worst returns the node with the worst state: the cause rather than its effect. Among equals,
// a descendant comes before its ancestors, and an earlier sibling before a later one.
func Worst(n *Node) *Node {
	var worst *Node
	for _, child := range n.Children {
		candidate := Worst(child)
		if isOwnStatus(candidate) && (worst == nil || candidate.State.Severity() > worst.State.Severity()) {
			worst = candidate
		}
	}
	if worst == nil || worst.State == StateReady || n.State != "" && worst.State.Severity() < n.State.Severity() {
		return n
	}
	return worst
}

// isOwnStatus reports whether the status of a node is part of the status of its
// Cluster. The workload cluster is not observed for summaries.
func isOwnStatus(n *Node) bool {
	return n.Kind != "Workload" && n.Kind != "Condition" && n.State != StateUnknown || n.Kind == clusterv1.ClusterKind
}

// Severity orders states from the best to the worst.
func (s State) Severity() int {
	return slices.Index([]State{StateReady, StateUnknown, StateWaiting, StateAttention, StateFailed}, s)
}

// Summary returns the status of a node in a few words, with its name unless it is a Cluster.
func (n *Node) Summary() string {
	text := n.ProgressText()
	if n.Kind == clusterv1.ClusterKind || n.Kind == "Run" || text == "" {
		return text
	}
	return n.Kind + " " + n.Name + ": " + text
}

// ProgressText returns the progress of a node, or its message.
func (n *Node) ProgressText() string {
	if p := n.Progress; p != nil && p.Total > 0 {
		return fmt.Sprintf("%s: %d of %d resources", cmp.Or(p.Phase, p.Operation), p.Done, p.Total)
	}
	return message.OneLine(n.Message)
}

// attentionNames are short names of the reasons for which workspaces wait for a user.
var attentionNames = map[string]string{
	infrav1.WaitingForApprovalReason: "Approval", infrav1.ProtectedResourceReason: "Protected", infrav1.LockHeldReason: "Lock",
	infrav1.DriftDetectedReason: "Drift", infrav1.PlanRejectedReason: "Rejected", infrav1.PolicyDeniedReason: "Policy",
	clusterv1.PausedReason: "Paused",
}

// Attention returns the short name of why a workspace waits for a user, if it does.
func (n *Node) Attention() string {
	switch n.State {
	case StateAttention:
		return cmp.Or(attentionNames[n.Reason], n.Reason)
	case StateFailed:
		return "Failed"
	}
	return ""
}

// ClusterOf returns the Cluster that an object belongs to.
func ClusterOf(obj client.Object) (client.ObjectKey, bool) {
	in := func(name string) (client.ObjectKey, bool) {
		return client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}, name != ""
	}
	if name := obj.GetLabels()[clusterv1.ClusterNameLabel]; name != "" {
		return in(name)
	}
	for _, owner := range obj.GetOwnerReferences() {
		if owner.Kind == clusterv1.ClusterKind {
			return in(owner.Name)
		}
	}
	switch obj := obj.(type) {
	case *infrav1.CAPTMachineDeployment:
		return in(obj.Spec.ClusterName)
	case *infrav1.CAPTMachineSet:
		return in(obj.Spec.ClusterName)
	}
	return client.ObjectKey{}, false
}
