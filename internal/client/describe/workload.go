package describe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
)

// workload returns a node for the API server of the workload cluster, with the
// cluster's nodes below.
func (b *builder) workload() *Node {
	n := &Node{Kind: "Workload", Name: "API server", State: StateWaiting, Reason: "WaitingForControlPlane"}
	if b.objects.ControlPlaneInitialized() {
		n.State, n.Reason = StateUnknown, notReported
	}
	if c := meta.FindStatusCondition(b.objects.Cluster.Status.Conditions, clusterv1.ClusterRemoteConnectionProbeCondition); c != nil {
		n.State, n.Reason, n.Message, n.Since = stateOf(c), c.Reason, c.Message, c.LastTransitionTime
		switch {
		case n.State == StateReady:
			n.Message = ""
		case c.Status == metav1.ConditionFalse && b.objects.ControlPlaneInitialized() && b.nodesUnreachable():
			n.State = StateFailed
		}
	}
	n.Children = b.nodes()
	return n
}

// nodesUnreachable reports whether this process could not list the nodes. If it
// could, Cluster API's failed probe is only out of date.
func (b *builder) nodesUnreachable() bool {
	return b.objects.Nodes != nil && b.objects.Nodes.Err != nil
}

// nodes returns the nodes of the workload cluster.
func (b *builder) nodes() []*Node {
	listed := b.objects.Nodes
	switch {
	case listed == nil, listed.Err != nil && !b.objects.Cluster.DeletionTimestamp.IsZero():
		return nil
	case listed.Err != nil:
		return []*Node{{Kind: "Nodes", State: StateUnknown, Reason: "NotSeen", Message: "Nodes cannot be listed: " + listed.Err.Error()}}
	case len(listed.Items) == 0:
		return []*Node{{Kind: "Nodes", Message: "none"}}
	}
	items := slices.SortedFunc(slices.Values(listed.Items), func(x, y corev1.Node) int { return cmp.Compare(x.Name, y.Name) })
	var nodes []*Node
	for i := range items {
		nodes = append(nodes, nodeNode(&items[i]))
	}
	if b.all {
		return nodes
	}
	return collapsed(nodes)
}

// nodeNode returns the tree's node of a Kubernetes node.
func nodeNode(node *corev1.Node) *Node {
	n := &Node{Kind: "Node", Name: node.Name, State: StateUnknown, Reason: notReported, Since: node.CreationTimestamp}
	for _, c := range node.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		n.Reason, n.Message, n.Since = c.Reason, c.Message, c.LastTransitionTime
		switch c.Status {
		case corev1.ConditionTrue:
			n.State, n.Reason, n.Message = StateReady, "Ready", nodeDetails(node)
		case corev1.ConditionFalse:
			n.State = StateFailed
		}
	}
	return n
}

// nodeDetails returns the instance type, the kubelet version and the Karpenter
// NodePool of a node.
func nodeDetails(node *corev1.Node) string {
	details := []string{node.Labels[corev1.LabelInstanceTypeStable], node.Status.NodeInfo.KubeletVersion}
	if pool := node.Labels["karpenter.sh/nodepool"]; pool != "" {
		details = append(details, "(Karpenter, "+pool+")")
	}
	return strings.Join(slices.DeleteFunc(details, func(part string) bool { return part == "" }), " ")
}

// ReadNodes lists the nodes of the workload cluster with the kubeconfig that
// Cluster API uses. The policy of the connector restricts the addresses of the API server.
// An error is part of the result.
func ReadNodes(ctx context.Context, c client.Reader, connector workload.Connector, cluster client.ObjectKey) *Nodes {
	kubeconfig, err := workloadKubeconfig(ctx, c, cluster)
	if err != nil {
		return &Nodes{Err: err}
	}
	connector.Scheme = scheme.New()
	workloadClient, err := connector.Client(kubeconfig)
	if err != nil {
		return &Nodes{Err: err}
	}
	var list corev1.NodeList
	if err := workloadClient.List(ctx, &list); err != nil {
		return &Nodes{Err: workload.ShortError(err)}
	}
	return &Nodes{Items: list.Items}
}

// workloadKubeconfig returns the kubeconfig of a Cluster. It refuses one that
// would run a program or read a file on the user's machine.
func workloadKubeconfig(ctx context.Context, c client.Reader, cluster client.ObjectKey) ([]byte, error) {
	var secret corev1.Secret
	name := cluster.Name + "-kubeconfig"
	err := c.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: name}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("the Secret %s does not exist yet", name)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you are not allowed to read Secret %s", name)
	case err != nil:
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if len(secret.Data["value"]) == 0 {
		return nil, fmt.Errorf("the Secret %s has no kubeconfig in key value", name)
	}
	if _, err := workload.CheckKubeconfig(secret.Data["value"]); err != nil {
		return nil, err
	}
	return secret.Data["value"], nil
}
