package captaddon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// namespaceGrace is how long a removal waits for the content of a namespace,
// which may be about to be deleted. After that, a namespace in use is kept.
const namespaceGrace = 30 * time.Second

// remove removes the add-on from a cluster that must not have it. The deletion
// policy decides whether its objects stay in the cluster.
func (r *Reconciler) remove(ctx context.Context, s *scope, in *installation) error {
	in.current.Attempts, in.current.UnreadySince = 0, metav1.Time{}
	if err := r.removeOne(ctx, s, in); err != nil {
		return in.reportFault(s, err)
	}
	in.removed = true
	return nil
}

func (r *Reconciler) removeOne(ctx context.Context, s *scope, in *installation) error {
	removesObjects := s.removesObjects(in)
	if removesObjects && in.paused() && in.secret != nil {
		return fault.Wait(addonsv1.ClusterPausedReason, "Cluster is paused: its objects are removed when it is resumed; to keep them, add the add-on to the annotation %s of the Cluster", addonsv1.LeaveAddonsAnnotation)
	}
	if removesObjects {
		if err := s.checkRemovalOrder(in); err != nil {
			return err
		}
	}
	if in.resourceSet != nil {
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, in.resourceSet, client.Preconditions{UID: &in.resourceSet.UID})); err != nil {
			return fmt.Errorf("deleting the ClusterResourceSet: %w", err)
		}
	}
	if removesObjects && in.secret != nil && in.isReachable() {
		if err := r.removeObjects(ctx, s, in); err != nil {
			return err
		}
	}
	if in.secret != nil {
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, in.secret, client.Preconditions{UID: &in.secret.UID})); err != nil {
			return fmt.Errorf("deleting the rendered Secret: %w", err)
		}
	}
	return nil
}

// removesObjects reports whether the objects in the cluster have to be deleted.
func (s *scope) removesObjects(in *installation) bool {
	return s.addon.Spec.DeletionPolicy == addonsv1.DeletionPolicyRemove && in.cluster != nil && !in.keepsObjects(s.addon.Name)
}

// keepsObjects reports whether an annotation of the Cluster keeps the objects of
// an add-on. It has no effect while the Cluster is being deleted.
func (in *installation) keepsObjects(addon string) bool {
	if in.clusterDeleting() {
		return false
	}
	for name := range strings.SplitSeq(in.cluster.Annotations[addonsv1.LeaveAddonsAnnotation], ",") {
		if strings.TrimSpace(name) == addon {
			return true
		}
	}
	return false
}

// checkRemovalOrder returns a fault unless the objects of the add-on may be
// deleted now.
func (s *scope) checkRemovalOrder(in *installation) error {
	if in.clusterDeleting() && !in.nodesDeleted() {
		// Karpenter and load balancer controllers are needed until then.
		return fault.Wait(addonsv1.RemovingReason, "Waiting for the nodes and load balancers of the cluster to be deleted")
	}
	for _, d := range render.Dependents(s.addon.Name, s.addons) {
		if d.StatusIn(in.name) != nil {
			return fault.Wait(addonsv1.WaitingForDependentsReason, "Add-on %s depends on this one and is removed first", d.Name)
		}
	}
	return nil
}

// clusterDeleting reports whether the Cluster is being deleted.
func (in *installation) clusterDeleting() bool { return !in.cluster.DeletionTimestamp.IsZero() }

// nodesDeleted reports whether the deletion of the cluster has reached its
// add-ons: nodes and load balancers are deleted.
func (in *installation) nodesDeleted() bool {
	if in.controlPlane == nil {
		return true
	}
	return conditions.IsTrue(in.controlPlane, controlplanev1.NodesGoneCondition) && in.clusterDeleting()
}

// isReachable reports whether the cluster has a control plane to talk to.
func (in *installation) isReachable() bool {
	return in.initialized() && (!in.clusterDeleting() || in.controlPlane != nil)
}

// removeObjects deletes the applied objects from the cluster.
func (r *Reconciler) removeObjects(ctx context.Context, s *scope, in *installation) error {
	c, err := r.Clusters.GetUncachedClient(ctx, in.key(s))
	if err != nil {
		return connectionError(err)
	}
	if r.Clusters.GetHealthCheckingState(ctx, in.key(s)).ConsecutiveFailures > 0 {
		return fault.WaitFor(probeInterval, addonsv1.WaitingForControlPlaneReason, "Workload cluster does not answer")
	}
	objects, err := r.appliedObjects(ctx, s, in)
	if err != nil {
		return err
	}
	return in.remover(s, c).removeAll(ctx, objects)
}

// appliedObjects returns the objects of earlier content that are still to be
// deleted, followed by the objects of the rendered Secret.
func (r *Reconciler) appliedObjects(ctx context.Context, s *scope, in *installation) ([]*unstructured.Unstructured, error) {
	data, err := secretData(ctx, r.Live, s.addon.Namespace, in.secret.Name, addonsv1.RemovingReason)
	if err != nil {
		return nil, err
	}
	objects, err := objectsToPrune(in.secret)
	if err != nil {
		return nil, err
	}
	applied, err := parseData(data)
	return append(objects, applied...), err
}

// parseData returns the objects of rendered data.
func parseData(data map[string][]byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, key := range slices.Sorted(maps.Keys(data)) {
		parsed, err := manifest.Parse(data[key])
		if err != nil {
			return nil, fmt.Errorf("reading the rendered content: %w", err)
		}
		objects = append(objects, parsed...)
	}
	return objects, nil
}

// remover returns what removes objects from the cluster.
func (in *installation) remover(s *scope, c client.Client) *remover {
	return &remover{c: c, addon: s.addon.Name, clusterDeleting: in.clusterDeleting(), waitsForNamespaces: in.waitsForNamespaces(s.now)}
}

// waitsForNamespaces reports whether the removal still waits for the content of
// namespaces: at least once, and until the removal has taken namespaceGrace.
func (in *installation) waitsForNamespaces(now time.Time) bool {
	waiting := in.previous.Reason == addonsv1.RemovingReason && strings.Contains(in.previous.Message, contentOf)
	return !waiting || now.Sub(in.previous.Since.Time) < namespaceGrace
}
