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
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// Source gives a controller access to the nodes of workload clusters.
type Source struct {
	Clusters clustercache.ClusterCache
	// Name is the name of the watch. Each controller needs its own.
	Name string
	// Controller is the controller that a change of a node triggers.
	Controller clustercache.SourceWatcher[ctrl.Request]
	// Requests returns the objects to reconcile when a node of a cluster changes.
	Requests func(ctx context.Context, cluster client.ObjectKey, node *corev1.Node) []ctrl.Request
}

// Reader returns a cached reader of a cluster's nodes and makes their changes
// trigger the controller. It returns a wait if there is no connection: the source
// of the ClusterCache triggers the controller when the cluster is connected.
func (s *Source) Reader(ctx context.Context, cluster client.ObjectKey) (client.Reader, error) {
	requests := func(ctx context.Context, obj client.Object) []ctrl.Request {
		node, ok := obj.(*corev1.Node)
		if !ok {
			return nil
		}
		return s.Requests(ctx, cluster, node)
	}
	err := s.Clusters.Watch(ctx, cluster, clustercache.NewWatcher(clustercache.WatcherOptions{
		Name: s.Name, Watcher: s.Controller, Kind: &corev1.Node{},
		EventHandler: handler.EnqueueRequestsFromMapFunc(requests), Predicates: []predicate.Predicate{Changed()},
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

// Unreachable returns the error to report for an error of a ClusterCache. A
// missing connection is a wait.
func Unreachable(err error) error {
	if errors.Is(err, clustercache.ErrClusterNotConnected) {
		return fault.Wait(infrav1.WorkloadClusterUnreachableReason, "Workload cluster is unreachable: there is no connection")
	}
	return fmt.Errorf("connecting to the workload cluster: %w", err)
}

// Find returns the node with a name or a provider ID, or nil if it does not exist.
// A node with the name must have the provider ID too, unless either is unknown.
func Find(ctx context.Context, reader client.Reader, providerID, name string) (*corev1.Node, error) {
	if name != "" {
		node := &corev1.Node{}
		err := reader.Get(ctx, client.ObjectKey{Name: name}, node)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading node %s: %w", name, err)
		}
		found := node.Spec.ProviderID
		if !apierrors.IsNotFound(err) && (found == providerID || found == "" || providerID == "") {
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

// Ready returns the status and the message of a node's Ready condition.
func Ready(node *corev1.Node) (status corev1.ConditionStatus, message string) {
	if c := readyCondition(node); c != nil {
		return c.Status, c.Message
	}
	return corev1.ConditionUnknown, "the kubelet has not reported a status yet"
}

func readyCondition(node *corev1.Node) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c
		}
	}
	return nil
}

// Changed passes changes of readiness, version, provider ID and labels, but not the
// heartbeats of the kubelet.
func Changed() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		previous, okPrevious := e.ObjectOld.(*corev1.Node)
		current, okCurrent := e.ObjectNew.(*corev1.Node)
		if !okPrevious || !okCurrent {
			return true
		}
		wasReady, _ := Ready(previous)
		isReady, _ := Ready(current)
		return wasReady != isReady || previous.Status.NodeInfo.KubeletVersion != current.Status.NodeInfo.KubeletVersion || previous.Spec.ProviderID != current.Spec.ProviderID || !maps.Equal(previous.Labels, current.Labels)
	}}
}

// InCluster returns list options for the objects of a Cluster.
func InCluster(namespace, cluster string) []client.ListOption {
	return []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster}}
}
