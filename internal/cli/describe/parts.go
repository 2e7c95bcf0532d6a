package describe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// workspace adds a workspace's run, and what it last did.
func (b *builder) workspace(n *Node, apply *infrav1.WorkspaceTemplateApply) {
	if n.State == StateReady && apply.Status.State != nil {
		n.Message = fmt.Sprintf("%d resources", apply.Status.State.Resources)
	}
	if drift := apply.Status.Drift; n.State == StateReady && drift != nil && len(drift.Resources) > 0 {
		n.State, n.Reason = StateAttention, infrav1.DriftDetectedReason
		n.Message = fmt.Sprintf("%d resources differ from the state: see captctl drift %s", len(drift.Resources), apply.Name)
	}
	if run := apply.Status.Run; run != nil {
		n.add(RunNode(run))
		if strings.Contains(n.Message, run.ID) {
			// The run says it better.
			n.Message = ""
		}
	} else if b.all && len(apply.Status.History) > 0 {
		n.add(recordNode(apply.Status.History[0]))
	}
}

// RunNode is the node of a run that goes on.
func RunNode(run *infrav1.RunStatus) *Node {
	n := &Node{Kind: "Run", Name: run.ID, State: StateWaiting, Reason: string(run.Operation), Since: run.StartedAt}
	n.Progress = &Progress{Operation: string(run.Operation)}
	p := run.Progress
	if p == nil {
		return n
	}
	n.Reason = cmp.Or(p.Phase, n.Reason)
	n.Progress.Phase, n.Progress.Done, n.Progress.Total = p.Phase, p.Done, p.Total
	if len(p.Current) > 0 {
		n.Progress.Current, n.Progress.Action, n.Progress.CurrentSince = p.Current[0].Address, p.Current[0].Action, p.Current[0].Since
	}
	return n
}

func recordNode(record infrav1.RunRecord) *Node {
	n := &Node{
		Kind: "Run", Name: record.ID, State: StateReady, Reason: string(record.Outcome), Message: record.Summary,
		Since: metav1.NewTime(record.StartedAt.Add(record.Duration.Duration)),
	}
	switch record.Outcome {
	case "Failed", "TimedOut", "Lost":
		n.State = StateFailed
	case "Planned", "Blocked", "Canceled":
		n.State = StateAttention
	case "Interrupted":
		n.State = StateWaiting
	}
	return n
}

// addons gathers the add-ons that the Cluster has or is to have, each after
// those that it depends on.
func (b *builder) addons() *Node {
	group := &Node{Kind: "Addons"}
	for _, addon := range dependencyOrder(b.objects.Addons) {
		group.add(b.addon(&addon))
	}
	if len(group.Children) == 0 {
		return nil
	}
	return group
}

func (b *builder) addon(addon *addonsv1.CAPTAddon) *Node {
	n := &Node{Kind: "CAPTAddon", Name: addon.Name}
	cluster := b.objects.Cluster
	i := slices.IndexFunc(addon.Status.Clusters, func(c addonsv1.ClusterAddonStatus) bool { return c.Name == cluster.Name })
	switch {
	case i >= 0:
		status := addon.Status.Clusters[i]
		n.State, n.Reason, n.Message, n.Since = StateFor(status.Reason), status.Reason, status.Message, status.Since
		if status.Ready != nil && *status.Ready {
			n.State, n.Message = StateReady, addonVersion(addon)
		}
		if status.Attempts > 0 && n.State != StateReady {
			n.Message = fmt.Sprintf("failed %d times: %s", status.Attempts, n.Message)
		}
	case cluster.DeletionTimestamp.IsZero() && matches(addon, cluster):
		n.State, n.Reason, n.Since = StateUnknown, notReported, addon.CreationTimestamp
	default:
		return nil
	}
	if b.all {
		n.Children = append(conditionNodes(addon), b.below(addon)...)
	}
	return n
}

func addonVersion(addon *addonsv1.CAPTAddon) string {
	switch {
	case addon.Spec.Helm != nil:
		return addon.Spec.Helm.Chart.Name + " " + addon.Spec.Helm.Chart.Version
	case addon.Spec.Versions != nil:
		return addon.Spec.Versions.Version
	}
	return ""
}

// matches tells whether an add-on's selector finds the Cluster.
func matches(addon *addonsv1.CAPTAddon, cluster *clusterv1.Cluster) bool {
	selector, err := metav1.LabelSelectorAsSelector(&addon.Spec.ClusterSelector)
	return err == nil && selector.Matches(labels.Set(cluster.Labels))
}

// dependencyOrder sorts add-ons by name, each after those that it depends on.
func dependencyOrder(addons []addonsv1.CAPTAddon) []addonsv1.CAPTAddon {
	byName := map[string]addonsv1.CAPTAddon{}
	var names []string
	for _, addon := range addons {
		byName[addon.Name] = addon
		names = append(names, addon.Name)
	}
	slices.Sort(names)
	var sorted []addonsv1.CAPTAddon
	seen := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		addon, exists := byName[name]
		if seen[name] || !exists {
			return
		}
		seen[name] = true
		for _, dependency := range addon.Spec.DependsOn {
			visit(dependency.Name)
		}
		sorted = append(sorted, addon)
	}
	for _, name := range names {
		visit(name)
	}
	return sorted
}

// workload tells how the workload cluster is.
func (b *builder) workload() *Node {
	n := &Node{Kind: "Workload", Name: "API server", State: StateWaiting, Reason: "WaitingForControlPlane"}
	if b.objects.Answers() {
		n.State, n.Reason = StateUnknown, notReported
	}
	if c := meta.FindStatusCondition(b.objects.Cluster.Status.Conditions, clusterv1.ClusterRemoteConnectionProbeCondition); c != nil {
		n.State, n.Reason, n.Message, n.Since = stateOf(c), c.Reason, c.Message, c.LastTransitionTime
		switch {
		case n.State == StateReady:
			n.Message = ""
		case c.Status == metav1.ConditionFalse && b.objects.Answers() && b.unreachable():
			n.State = StateFailed
		}
	}
	n.Children = b.nodes()
	return n
}

// unreachable tells whether whoever looks could not reach the workload cluster
// either. Where they can, Cluster API soon will.
func (b *builder) unreachable() bool { return b.objects.Nodes != nil && b.objects.Nodes.Err != nil }

// nodes are the nodes of the workload cluster, gathered when they are many.
func (b *builder) nodes() []*Node {
	seen := b.objects.Nodes
	switch {
	case seen == nil, seen.Err != nil && !b.objects.Cluster.DeletionTimestamp.IsZero():
		return nil
	case seen.Err != nil:
		return []*Node{{Kind: "Nodes", State: StateUnknown, Reason: "NotSeen", Message: "not seen from here: " + seen.Err.Error()}}
	case len(seen.Items) == 0:
		return []*Node{{Kind: "Nodes", Message: "none"}}
	}
	items := slices.SortedFunc(slices.Values(seen.Items), func(x, y corev1.Node) int { return cmp.Compare(x.Name, y.Name) })
	var nodes []*Node
	for i := range items {
		nodes = append(nodes, nodeNode(&items[i]))
	}
	if b.all {
		return nodes
	}
	return gathered(nodes)
}

func nodeNode(node *corev1.Node) *Node {
	n := &Node{Kind: "Node", Name: node.Name, State: StateUnknown, Reason: notReported, Since: node.CreationTimestamp}
	for _, c := range node.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		n.Reason, n.Message, n.Since = c.Reason, c.Message, c.LastTransitionTime
		switch c.Status {
		case corev1.ConditionTrue:
			n.State, n.Reason, n.Message = StateReady, "Ready", nodeDetail(node)
		case corev1.ConditionFalse:
			n.State = StateFailed
		}
	}
	return n
}

func nodeDetail(node *corev1.Node) string {
	detail := []string{node.Labels[corev1.LabelInstanceTypeStable], node.Status.NodeInfo.KubeletVersion}
	if pool := node.Labels["karpenter.sh/nodepool"]; pool != "" {
		detail = append(detail, "(Karpenter, "+pool+")")
	}
	return strings.Join(slices.DeleteFunc(detail, func(part string) bool { return part == "" }), " ")
}
