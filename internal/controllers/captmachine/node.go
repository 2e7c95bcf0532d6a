package captmachine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

const (
	// fieldOwner is the manager of the fields that the controller writes to Nodes.
	fieldOwner = "capt-machine"
	// rejectedRetry is when a rejected change of a Node is tried again.
	rejectedRetry = 5 * time.Minute
)

// node waits until the node of the instance is ready. While the cluster does not answer,
// the last known problem stays: otherwise each interruption would restart its time.
func (r *Reconciler) node(ctx context.Context, s *scope) error {
	reader, err := r.nodes.Reader(ctx, s.clusterKey())
	if err != nil {
		return err
	}
	s.node, err = nodes.Find(ctx, reader, s.machine.Spec.ProviderID, s.machine.Status.NodeName)
	if err != nil {
		return err
	}
	s.machine.Status.NodeProblem = problem(s.machine.Status.NodeProblem, s.nodeProblem(), s.now)
	if s.node == nil {
		return fault.Wait(infrav1.WaitingForNodeReason, "No node with provider ID %s has joined the cluster", s.machine.Spec.ProviderID)
	}
	s.machine.Status.NodeName = s.node.Name
	if version := s.node.Status.NodeInfo.KubeletVersion; len(version) <= maxVersion {
		s.machine.Status.Version = version
	}
	if status, message := nodes.Ready(s.node); status != corev1.ConditionTrue {
		return fault.Wait(infrav1.NodeNotReadyReason, "Node %s is not ready: %s", s.node.Name, message)
	}
	return nil
}

// nodeProblem returns the reason why the node does not work, or an empty string.
func (s *scope) nodeProblem() string {
	switch {
	case s.replacement != "":
		return infrav1.ProviderIDChangedReason
	case s.node == nil && s.machine.Status.Version == "":
		return infrav1.WaitingForNodeReason
	case s.node == nil:
		return infrav1.NodeGoneReason
	}
	if status, _ := nodes.Ready(s.node); status != corev1.ConditionTrue {
		return infrav1.NodeNotReadyReason
	}
	return ""
}

// problem returns the problem of a node. A node that had joined keeps the time since
// which it does not work, whether it is not ready or does not exist.
func problem(previous *infrav1.NodeProblem, reason string, now time.Time) *infrav1.NodeProblem {
	if reason == "" {
		return nil
	}
	since := metav1.NewTime(now.Truncate(time.Second))
	waiting := infrav1.WaitingForNodeReason
	if previous != nil && (previous.Reason == waiting) == (reason == waiting) {
		since = previous.Since
	}
	return &infrav1.NodeProblem{Reason: reason, Since: since}
}

// settings sets the labels and taints of the machine on its Node. The kubelet sets them
// only when it registers the node.
func (r *Reconciler) settings(ctx context.Context, s *scope) error {
	switch {
	case s.node == nil:
		return fault.Wait(infrav1.WaitingForNodeReason, "The node is not known")
	case s.machine.Spec.NodeGroupRef != nil && s.pool == nil:
		return fault.Wait(infrav1.WaitingForNodeGroupReason, "The labels and taints of CAPTMachinePool %s are not known", s.machine.Spec.NodeGroupRef.Name)
	}
	changed := s.node.DeepCopy()
	want := s.desired()
	if !(nodes.Settings{Labels: want.Labels(), Taints: want.Taints()}).Apply(changed) {
		return nil
	}
	c, err := r.Clusters.GetClient(ctx, s.clusterKey())
	if err != nil {
		return nodes.Unreachable(err)
	}
	// The list of taints is replaced as a whole, so the patch requires that no other client
	// has changed it.
	err = c.Patch(ctx, changed, client.MergeFromWithOptions(s.node, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldOwner))
	switch {
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return fault.WaitFor(rejectedRetry, infrav1.NodeUpdateRejectedReason, "Labels and taints of Node %s were not changed: %w", s.node.Name, err)
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("updating Node %s: %w", s.node.Name, err)
	}
	s.node = changed
	return nil
}

// version reports a node that is older than the control plane. An instance keeps its
// version; the one that replaces it has the current version.
func version(_ context.Context, s *scope) error {
	if s.info != nil && kubeversion.Older(s.machine.Status.Version, s.info.Version) {
		return fault.Wait(infrav1.VersionBehindReason,
			"The node has Kubernetes %s, and the control plane has %s: delete the machine to replace it", kubeversion.MinorOf(s.machine.Status.Version), s.info.Version)
	}
	return nil
}

func nodeMessage(s *scope) string { return "Node " + s.node.Name + " is ready" }
