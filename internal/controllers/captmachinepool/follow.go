package captmachinepool

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// joinTimeout is the time after a run in which instances of the outputs count as
// nodes that have not joined yet. Later they count as deleted.
const joinTimeout = 15 * time.Minute

// follow sets the list of nodes to those in the cluster. A run would know nothing else.
func (s *scope) follow(found []corev1.Node) error {
	list, missing := s.existing(found)
	joins := s.apply.Status.AppliedAt.Add(joinTimeout).Sub(s.now)
	if joins > 0 {
		list = slices.Sorted(slices.Values(append(list, missing...)))
	}
	s.setList(list)
	s.followed = true
	switch {
	case len(missing) > 0 && joins > 0:
		return fault.WaitFor(joins, infrav1.WaitingForNodeReason, "Nodes not in the cluster: %s", message.List(missing, maxNames))
	case len(missing) > 0 && !s.desired().ReplicasManagedExternally() && len(list) < int(s.desired().Replicas()):
		return fault.Wait(infrav1.WaitingForNodeReason, "Nodes not in the cluster: %s", message.List(missing, maxNames))
	}
	return nil
}

// existing returns the sorted provider IDs of the pool's nodes in the cluster, and
// those of the outputs that have none.
func (s *scope) existing(found []corev1.Node) (list, missing []string) {
	selector := labels.SelectorFromSet(s.outputs.selector)
	before, applied, members := sets.New(s.writtenList...), sets.New(s.outputs.list...), sets.New[string]()
	for i := range found {
		node := &found[i]
		id := node.Spec.ProviderID
		switch {
		case id == "":
		case applied.Has(id):
			members.Insert(id)
		case s.isRetired(node):
		case before.Has(id) || selector.Matches(labels.Set(node.Labels)):
			// Cluster API deletes the Node of a member that leaves the list, so a
			// changed label does not remove one.
			members.Insert(id)
		}
	}
	return sets.List(members), sets.List(applied.Difference(members))
}

// retirement is how long the kubelet of a node that is not in the outputs must be silent
// before its instance counts as deleted. The cloud deletes such nodes earlier.
const retirement = 10 * time.Minute

// isRetired reports whether the instance of a node that is not in the outputs was
// deleted: the node is older than the run, and its kubelet has not reported for some
// time. An autoscaler may have added it after the run has read the instances.
func (s *scope) isRetired(node *corev1.Node) bool {
	since, notReady := nodes.NotReadySince(node)
	if !notReady || !node.CreationTimestamp.Time.Before(s.runStarted()) {
		return false
	}
	left := since.Add(retirement).Sub(s.now)
	if left > 0 && (s.nextRetirement == 0 || left < s.nextRetirement) {
		s.nextRetirement = left
	}
	return left <= 0
}

// runStarted returns when the run whose outputs are known began.
func (s *scope) runStarted() time.Time {
	applied := s.apply.Status.AppliedAt.Time
	for _, run := range s.apply.Status.History {
		if !run.StartedAt.After(applied) {
			return run.StartedAt.Time
		}
	}
	return applied
}

// sizeTimeout is how long the number of nodes may be another one than the desired number
// before a run corrects it. The cloud replaces nodes in the meantime.
const sizeTimeout = 2 * joinTimeout

// isWrongSize reports whether the number of nodes has been another one than the desired
// number for too long: another client has changed the group.
func (s *scope) isWrongSize() bool {
	return s.applied && !s.desired().ReplicasManagedExternally() && len(s.pool.Spec.ProviderIDList) != int(s.desired().Replicas()) &&
		s.now.Sub(s.wrongSizeSince()) >= sizeTimeout && s.now.Sub(s.lastRun()) >= joinTimeout
}

// topologyReplicas reports whether the topology of the Cluster sets the number of nodes.
// It would undo each write of another number.
func (s *scope) topologyReplicas() bool {
	name := s.owner.Labels[clusterv1.ClusterTopologyMachinePoolNameLabel]
	if name == "" || s.cluster == nil || !s.cluster.Spec.Topology.IsDefined() {
		return false
	}
	return slices.ContainsFunc(s.cluster.Spec.Topology.Workers.MachinePools, func(p clusterv1.MachinePoolTopology) bool {
		return p.Name == name && p.Replicas != nil
	})
}

// reportReplicas writes the number of nodes to a MachinePool whose number another
// system decides, as the contract of Cluster API requires.
func (r *Reconciler) reportReplicas(ctx context.Context, s *scope) error {
	if !s.followed && !s.applied || !s.desired().ReplicasManagedExternally() || s.topologyReplicas() {
		return nil
	}
	existing := int32(len(s.pool.Spec.ProviderIDList))
	if s.owner.Spec.Replicas != nil && *s.owner.Spec.Replicas == existing {
		return nil
	}
	changed := s.owner.DeepCopy()
	changed.Spec.Replicas = &existing
	if err := r.Client.Patch(ctx, changed, client.MergeFrom(s.owner)); err != nil {
		return fmt.Errorf("writing the number of nodes to MachinePool %s: %w", s.owner.Name, err)
	}
	s.owner = changed
	return nil
}
