package nodes

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

const (
	// listTimeout limits the time of a list of nodes, for which a reconcile waits.
	listTimeout = 10 * time.Second
	// maxSize limits what is kept of all nodes. That of 5,000 is about 6 MiB. An empty node
	// has emptySize.
	maxSize   = 16 << 20
	emptySize = 1 << 10
	// retryInterval is when a workload cluster that does not respond is called again.
	retryInterval = 30 * time.Second
	// computeTypeLabel is set by EKS. Each pod on Fargate has a node of its own, which no
	// machine has created.
	computeTypeLabel = "eks.amazonaws.com/compute-type"
)

// Members are the nodes of a workload cluster at one moment, without those of Fargate.
type Members []corev1.Node

// List reads the nodes of a workload cluster, without a cache. It waits if the cluster
// does not respond.
func List(ctx context.Context, reader client.Reader) (Members, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var members Members
	size := 0
	err := workload.EachPage(ctx, reader, func() *corev1.NodeList { return &corev1.NodeList{} }, func(page *corev1.NodeList) error {
		for i := range page.Items {
			if page.Items[i].Labels[computeTypeLabel] != "fargate" {
				members = append(members, essence(&page.Items[i]))
				size += emptySize + members[len(members)-1].Size()
			}
		}
		if size > maxSize {
			return errTooLarge
		}
		return nil
	})
	switch {
	case errors.Is(err, errTooLarge):
		return nil, fault.WaitFor(retryInterval, infrav1.WorkloadClusterUnreachableReason, "The nodes of the workload cluster need more than %d MiB of memory", maxSize>>20)
	case err != nil:
		return nil, fault.WaitFor(retryInterval, infrav1.WorkloadClusterUnreachableReason, "Listing the nodes of the workload cluster failed: %w", err)
	}
	return members, nil
}

// errTooLarge ends a list of nodes that need too much memory.
var errTooLarge = errors.New("the nodes need too much memory")

// essence returns a node with what Members reads.
func essence(node *corev1.Node) corev1.Node {
	kept := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}, Spec: corev1.NodeSpec{ProviderID: node.Spec.ProviderID}}
	if c := readyCondition(node); c != nil {
		kept.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}}
	}
	return kept
}

// Ready returns the number of nodes that are ready.
func (m Members) Ready() int {
	ready := 0
	for i := range m {
		if status, _ := Ready(&m[i]); status == corev1.ConditionTrue {
			ready++
		}
	}
	return ready
}

// Failing returns why the cause of a problem is probably not in single nodes, or an empty
// string. most requires that at least half of the nodes are ready, and not only one.
func (m Members) Failing(most bool) string {
	ready := m.Ready()
	switch {
	case len(m) > 0 && ready == 0:
		return fmt.Sprintf("None of the %d nodes of the cluster is ready", len(m))
	case most && ready*2 < len(m):
		return fmt.Sprintf("Only %d of the %d nodes of the cluster are ready", ready, len(m))
	}
	return ""
}

// Find returns the node with a provider ID, or else with a name, or nil.
func (m Members) Find(providerID, name string) *corev1.Node {
	var named *corev1.Node
	for i := range m {
		node := &m[i]
		if providerID != "" && node.Spec.ProviderID == providerID {
			return node
		}
		if name != "" && node.Name == name && (node.Spec.ProviderID == "" || providerID == "") {
			named = node
		}
	}
	return named
}

// NotReadySince returns since when a node is not ready, and false if it is ready. The time
// is zero if it is not known.
func NotReadySince(node *corev1.Node) (since time.Time, notReady bool) {
	if c := readyCondition(node); c != nil {
		return c.LastTransitionTime.Time, c.Status != corev1.ConditionTrue
	}
	return time.Time{}, true
}
