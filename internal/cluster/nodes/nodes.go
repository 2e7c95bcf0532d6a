// Package nodes contains what the controllers of machines and of machine pools
// share: reading what is known about the cluster that nodes join, the
// preconditions of new nodes, and the nodes of workload clusters.
package nodes

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// Source shows a controller the nodes of workload clusters.
type Source struct {
	Clusters clustercache.ClusterCache
	// Name tells the watches of several controllers apart.
	Name string
	// Controller is what a change of a node wakes.
	Controller clustercache.SourceWatcher[ctrl.Request]
	// Concerns finds what a node of a cluster concerns.
	Concerns func(ctx context.Context, cluster client.ObjectKey, node *corev1.Node) []ctrl.Request
}

// Reader reads the nodes of a cluster from memory, and has their changes wake
// the controller. A connection that is down is a wait; the controller is woken
// by the source of the ClusterCache when it comes.
func (s *Source) Reader(ctx context.Context, cluster client.ObjectKey) (client.Reader, error) {
	concerns := func(ctx context.Context, obj client.Object) []ctrl.Request {
		node, ok := obj.(*corev1.Node)
		if !ok {
			return nil
		}
		return s.Concerns(ctx, cluster, node)
	}
	err := s.Clusters.Watch(ctx, cluster, clustercache.NewWatcher(clustercache.WatcherOptions{
		Name: s.Name, Watcher: s.Controller, Kind: &corev1.Node{},
		EventHandler: handler.EnqueueRequestsFromMapFunc(concerns), Predicates: []predicate.Predicate{Changed()},
	}))
	if err != nil {
		return nil, Unreachable(err)
	}
	reader, err := s.Clusters.GetReader(ctx, cluster)
	if err != nil {
		return nil, Unreachable(err)
	}
	return reader, nil
}

// Unreachable words an error of a ClusterCache: a connection that is down is a
// wait.
func Unreachable(err error) error {
	if errors.Is(err, clustercache.ErrClusterNotConnected) {
		return fault.Wait(infrav1.WorkloadClusterUnreachableReason, "There is no connection to the cluster")
	}
	return fmt.Errorf("connecting to the cluster: %w", err)
}

// Find finds a node by its provider ID, and before that by the name it is known
// by. A node that tells no provider ID is known by its name alone. It returns
// nil for one that is not there.
func Find(ctx context.Context, reader client.Reader, providerID, name string) (*corev1.Node, error) {
	if name != "" {
		node := &corev1.Node{}
		err := reader.Get(ctx, client.ObjectKey{Name: name}, node)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading node %s: %w", name, err)
		}
		told := node.Spec.ProviderID
		if !apierrors.IsNotFound(err) && (told == providerID || told == "" || providerID == "") {
			return node, nil
		}
	}
	if providerID == "" {
		return nil, nil
	}
	var list corev1.NodeList
	if err := reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	for i := range list.Items {
		if list.Items[i].Spec.ProviderID == providerID {
			return list.Items[i].DeepCopy(), nil
		}
	}
	return nil, nil
}

// Ready tells whether a node is ready, and what it says of itself.
func Ready(node *corev1.Node) (status corev1.ConditionStatus, message string) {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status, c.Message
		}
	}
	return corev1.ConditionUnknown, "it has not told yet"
}

// Changed lets through what somebody may have to act on, and not the kubelet's
// heartbeats.
func Changed() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*corev1.Node)
		after, okAfter := e.ObjectNew.(*corev1.Node)
		if !okBefore || !okAfter {
			return true
		}
		was, _ := Ready(before)
		is, _ := Ready(after)
		return was != is || before.Spec.ProviderID != after.Spec.ProviderID || !maps.Equal(before.Labels, after.Labels)
	}}
}
