package captmachine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	// drainInterval is how often the drain of a node is checked.
	drainInterval = 5 * time.Second
	// brokenDrainTimeout is how long the drain of a node that does not work may take.
	brokenDrainTimeout = 10 * time.Minute
	// nodeDeletionTimeout is how long the controller tries to delete the Node of a
	// destroyed instance. Afterwards the cloud's node lifecycle controller does.
	nodeDeletionTimeout = 30 * time.Second
	// skipHint is how a user continues without a drain.
	skipHint = "; to skip the drain, set spec.drain.mode: Skip"
)

// drain drains the node before the instance is destroyed, unless that is not
// necessary.
func (r *Reconciler) drain(ctx context.Context, s *scope) error {
	if err := r.readClusterInfo(ctx, s); err != nil {
		return err
	}
	if s.drainReason, s.drainMessage = s.drainExemption(); s.drainReason != "" {
		return nil
	}
	err := r.evictPods(ctx, s)
	if err == nil || !s.drainTimedOut() {
		return err
	}
	text := err.Error()
	if waiting, ok := fault.AsWaiting(err); ok {
		text = waiting.Message()
	}
	s.drainReason = infrav1.DrainTimedOutReason
	s.drainMessage = fmt.Sprintf("The drain was aborted after %s: %s", s.drainTimeout(), text)
	return nil
}

// readClusterInfo reads whether the control plane is being deleted too.
func (r *Reconciler) readClusterInfo(ctx context.Context, s *scope) error {
	if s.cluster == nil {
		return nil
	}
	var err error
	s.info, err = nodes.ClusterInfo(ctx, r.Client, r.Workspaces, s.cluster)
	return err
}

// drainExemption returns why the node is not drained, or empty strings. A decision
// is final, because the instance may be partly destroyed.
func (s *scope) drainExemption() (reason, message string) {
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
		return infrav1.NodeGoneReason, "The machine never had a node"
	}
	if reason := s.clusterUnusable(); reason != "" {
		return infrav1.DrainSkippedReason, reason
	}
	return "", ""
}

// clusterUnusable returns why the workload cluster cannot or need not be called
// anymore, or an empty string.
func (s *scope) clusterUnusable() string {
	switch {
	case s.cluster == nil:
		return "The Cluster does not exist"
	case !s.cluster.DeletionTimestamp.IsZero():
		return "The Cluster is being deleted"
	case s.info != nil && s.info.ControlPlaneDeleting:
		return "The control plane is being deleted"
	}
	if done := s.cluster.Status.Initialization.ControlPlaneInitialized; done == nil || !*done {
		return "The control plane was never initialized"
	}
	return ""
}

// evictPods evicts the pods that can be evicted now, and waits for the others.
func (r *Reconciler) evictPods(ctx context.Context, s *scope) error {
	reader, err := r.nodes.Reader(ctx, s.clusterKey())
	if err != nil {
		return s.drainFailed(err)
	}
	s.node, err = nodes.Find(ctx, reader, s.machine.Spec.ProviderID, s.machine.Status.NodeName)
	if err != nil {
		return s.drainFailed(err)
	}
	if s.node == nil {
		s.drainReason, s.drainMessage = infrav1.NodeGoneReason, "The node does not exist anymore"
		return nil
	}
	config, err := r.Clusters.GetRESTConfig(ctx, s.clusterKey())
	if err != nil {
		return s.drainFailed(nodes.Unreachable(err))
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client for the workload cluster: %w", err)
	}
	remaining, err := drain.Node(ctx, c, s.node)
	if err != nil {
		return s.drainFailed(err)
	}
	if !remaining.Empty() {
		return fault.WaitFor(s.nextDrainCheck(), infrav1.DrainingReason, "Node %s: %s", s.node.Name, remaining)
	}
	return nil
}

// drainFailed turns an error of the workload cluster into a wait that describes how
// to skip the drain, because the cluster may never be reachable again.
func (s *scope) drainFailed(err error) error {
	if waiting, ok := fault.AsWaiting(err); ok {
		return fault.WaitFor(s.nextDrainCheck(), waiting.Reason, "%s%s", waiting.Message(), skipHint)
	}
	return fault.WaitFor(s.nextDrainCheck(), infrav1.WorkloadClusterUnreachableReason, "Draining the node failed: %w%s", err, skipHint)
}

// drainTimeout returns how long a drain may take. Zero means no limit. The pods of a node
// that does not work are not protected by their disruption budget: they do not work
// either, and would keep the machine for ever.
func (s *scope) drainTimeout() time.Duration {
	if policy := s.machine.Spec.Drain; policy != nil && policy.Timeout != nil {
		return policy.Timeout.Duration
	}
	if s.machine.Status.NodeProblem == nil {
		return 0
	}
	if s.node != nil {
		if status, _ := nodes.Ready(s.node); status == corev1.ConditionTrue {
			return 0
		}
	}
	return brokenDrainTimeout
}

// drainRemaining returns the time until the drain times out.
func (s *scope) drainRemaining() time.Duration {
	return s.machine.DeletionTimestamp.Add(s.drainTimeout()).Sub(s.now)
}

func (s *scope) drainTimedOut() bool { return s.drainTimeout() > 0 && s.drainRemaining() <= 0 }

// nextDrainCheck returns when the drain is checked again.
func (s *scope) nextDrainCheck() time.Duration {
	if s.drainTimeout() > 0 {
		return min(drainInterval, s.drainRemaining())
	}
	return drainInterval
}

func drainedReason(s *scope) string  { return s.drainReason }
func drainedMessage(s *scope) string { return s.drainMessage }

// destroy destroys the instance.
func (r *Reconciler) destroy(ctx context.Context, s *scope) error {
	if err := nodes.WaitForTeardown(ctx, r.Client, s.cluster); err != nil {
		return err
	}
	return r.Workspaces.Remove(ctx, s.machine, false, s.machine.Spec.Workspace)
}

// removeNode deletes the Node of a destroyed instance. After a timeout it leaves
// the Node, so that it never blocks the deletion of the machine.
func (r *Reconciler) removeNode(ctx context.Context, s *scope) error {
	if s.clusterUnusable() != "" || s.machine.Spec.ProviderID == "" && s.machine.Status.NodeName == "" {
		return nil
	}
	err := r.deleteNode(ctx, s)
	if err == nil {
		return nil
	}
	destroyed := conditions.Get(s.machine, infrav1.DestroyedCondition)
	if destroyed == nil || s.now.Sub(destroyed.LastTransitionTime.Time) < nodeDeletionTimeout {
		return fault.WaitFor(drainInterval, infrav1.WorkloadClusterUnreachableReason, "Deleting the Node failed: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("Did not delete the Node", "node", s.machine.Status.NodeName, "reason", err.Error())
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
