package captmachine

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes"
	"github.com/appthrust/capt/internal/cluster/nodes/drain"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

const (
	// drainLook is how often a node is looked at while it is drained.
	drainLook = 5 * time.Second
	// nodeDeletion is how long the object of a node whose instance is gone is
	// tried to be removed. The node lifecycle of the cloud does it otherwise.
	nodeDeletion = 30 * time.Second
	// howToSkip tells how to go on without a drain.
	howToSkip = "; to go on without a drain, set spec.drain.mode: Skip"
)

// drain empties the node before its instance goes, unless there is no need to.
func (r *Reconciler) drain(ctx context.Context, s *scope) error {
	if err := r.lookAround(ctx, s); err != nil {
		return err
	}
	if s.drainReason, s.drainMessage = s.exemption(); s.drainReason != "" {
		return nil
	}
	err := r.empty(ctx, s)
	if err == nil || !s.overdue() {
		return err
	}
	text := err.Error()
	if waiting, ok := fault.AsWaiting(err); ok {
		text = waiting.Message()
	}
	s.drainReason = infrav1.DrainTimedOutReason
	s.drainMessage = fmt.Sprintf("The drain took longer than %s and was given up: %s", s.timeout(), text)
	return nil
}

// lookAround reads whether the control plane of the node goes too.
func (r *Reconciler) lookAround(ctx context.Context, s *scope) error {
	if s.cluster == nil {
		return nil
	}
	var err error
	s.info, err = nodes.ClusterInfo(ctx, r.Client, r.Workspaces, s.cluster)
	return err
}

// exemption is why a node is not drained, if it is not. What was decided once
// stays: the instance may be half gone.
func (s *scope) exemption() (reason, message string) {
	if done := conditions.Get(s.machine, infrav1.DrainedCondition); done != nil && done.Status == metav1.ConditionTrue {
		return done.Reason, done.Message
	}
	_, excluded := s.machine.Annotations[clusterv1.ExcludeNodeDrainingAnnotation]
	switch drain := s.machine.Spec.Drain; {
	case drain != nil && drain.Mode == infrav1.DrainModeSkip:
		return infrav1.DrainSkippedReason, "spec.drain.mode is Skip"
	case excluded:
		return infrav1.DrainSkippedReason, "The annotation " + clusterv1.ExcludeNodeDrainingAnnotation + " is set"
	case s.machine.Spec.ProviderID == "" && s.machine.Status.NodeName == "":
		return infrav1.NodeGoneReason, "There has been no node"
	}
	if why := s.clusterLeaves(); why != "" {
		return infrav1.DrainSkippedReason, why
	}
	return "", ""
}

// clusterLeaves is why the cluster of a node cannot, or need not, be asked for
// anything any more.
func (s *scope) clusterLeaves() string {
	switch {
	case s.cluster == nil:
		return "The Cluster is gone"
	case !s.cluster.DeletionTimestamp.IsZero():
		return "The Cluster is being deleted"
	case s.info != nil && s.info.ControlPlaneDeleting:
		return "The control plane is being deleted"
	}
	if done := s.cluster.Status.Initialization.ControlPlaneInitialized; done == nil || !*done {
		return "There has been no control plane"
	}
	return ""
}

// empty evicts what can be evicted now, and tells what is waited for.
func (r *Reconciler) empty(ctx context.Context, s *scope) error {
	reader, err := r.nodes.Reader(ctx, s.clusterKey())
	if err != nil {
		return s.unreachable(err)
	}
	s.node, err = nodes.Find(ctx, reader, s.machine.Spec.ProviderID, s.machine.Status.NodeName)
	if err != nil {
		return s.unreachable(err)
	}
	if s.node == nil {
		s.drainReason, s.drainMessage = infrav1.NodeGoneReason, "There is no node any more"
		return nil
	}
	config, err := r.Clusters.GetRESTConfig(ctx, s.clusterKey())
	if err != nil {
		return s.unreachable(nodes.Unreachable(err))
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client of the cluster: %w", err)
	}
	remains, err := drain.Node(ctx, c, s.node)
	if err != nil {
		return s.unreachable(err)
	}
	if !remains.Empty() {
		return fault.WaitFor(s.nextLook(), infrav1.DrainingReason, "Node %s: %s", s.node.Name, remains)
	}
	return nil
}

// unreachable is a wait that names the way out: what is tried again and again
// may be waited for in vain.
func (s *scope) unreachable(err error) error {
	if waiting, ok := fault.AsWaiting(err); ok {
		return fault.WaitFor(s.nextLook(), waiting.Reason, "%s%s", waiting.Message(), howToSkip)
	}
	return fault.WaitFor(s.nextLook(), infrav1.WorkloadClusterUnreachableReason, "The cluster cannot be asked: %w%s", err, howToSkip)
}

func (s *scope) timeout() time.Duration {
	if policy := s.machine.Spec.Drain; policy != nil && policy.Timeout != nil {
		return policy.Timeout.Duration
	}
	return 0
}

// left is how long the drain may still take, if it is bounded.
func (s *scope) left() time.Duration {
	return s.machine.DeletionTimestamp.Add(s.timeout()).Sub(s.now)
}

func (s *scope) overdue() bool { return s.timeout() > 0 && s.left() <= 0 }

// nextLook is when the node is looked at again.
func (s *scope) nextLook() time.Duration {
	if s.timeout() > 0 {
		return min(drainLook, s.left())
	}
	return drainLook
}

func drainedReason(s *scope) string  { return s.drainReason }
func drainedMessage(s *scope) string { return s.drainMessage }

// destroy takes the instance away.
func (r *Reconciler) destroy(ctx context.Context, s *scope) error {
	return r.Workspaces.Remove(ctx, s.machine, false)
}

// forget removes the object of a node whose instance is gone. It is tried for a
// while, and then left: a machine does not stay for it.
func (r *Reconciler) forget(ctx context.Context, s *scope) error {
	if s.clusterLeaves() != "" || s.machine.Spec.ProviderID == "" && s.machine.Status.NodeName == "" {
		return nil
	}
	err := r.deleteNode(ctx, s)
	if err == nil {
		return nil
	}
	gone := conditions.Get(s.machine, infrav1.DestroyedCondition)
	if gone == nil || s.now.Sub(gone.LastTransitionTime.Time) < nodeDeletion {
		return fault.WaitFor(drainLook, infrav1.WorkloadClusterUnreachableReason, "The object of the node cannot be removed: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("Left the object of a node", "node", s.machine.Status.NodeName, "reason", err.Error())
	return nil
}

func (r *Reconciler) deleteNode(ctx context.Context, s *scope) error {
	c, err := r.Clusters.GetClient(ctx, s.clusterKey())
	if err != nil {
		return err
	}
	node, err := nodes.Find(ctx, c, s.machine.Spec.ProviderID, s.machine.Status.NodeName)
	if err != nil || node == nil {
		return err
	}
	return client.IgnoreNotFound(c.Delete(ctx, node, client.Preconditions{UID: &node.UID}))
}
