package reconcile

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/reconcile/fault"
)

// WaitingForClusterReason surfaces when an object refers to a Cluster that does
// not exist or is not in the cache yet.
const WaitingForClusterReason = "WaitingForCluster"

// deleteForMoveAnnotation is what clusterctl writes to an object that it has moved, before it
// deletes it.
const deleteForMoveAnnotation = "clusterctl.cluster.x-k8s.io/delete-for-move"

// OwnerCluster returns the Cluster that an object belongs to, by owner reference
// and then by the cluster-name label. It returns nil if the object has neither.
//
// A Cluster that is not found is a fault.Waiting, not nil: during clusterctl
// move the Cluster may exist, paused, before it is in the cache. An object that
// is being deleted does not wait, because a Cluster that was deleted by force is
// not created again.
func OwnerCluster(ctx context.Context, c client.Reader, obj client.Object) (*clusterv1.Cluster, error) {
	key := client.ObjectKey{Namespace: obj.GetNamespace(), Name: ownerClusterName(obj)}
	if key.Name == "" {
		return nil, nil
	}
	cluster := &clusterv1.Cluster{}
	switch err := c.Get(ctx, key, cluster); {
	case apierrors.IsNotFound(err) && !obj.GetDeletionTimestamp().IsZero():
		return nil, nil
	case apierrors.IsNotFound(err):
		return nil, fault.Wait(WaitingForClusterReason, "Cluster %s does not exist", key)
	case err != nil:
		return nil, fmt.Errorf("getting Cluster %s: %w", key, err)
	}
	return cluster, nil
}

// NoCluster is the Cluster function of kinds that several clusters share, and
// which therefore are not paused with a Cluster.
func NoCluster[T Object](context.Context, T) (*clusterv1.Cluster, error) {
	return nil, nil
}

func ownerClusterName(obj client.Object) string {
	for _, ref := range obj.GetOwnerReferences() {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err == nil && gv.Group == clusterv1.GroupVersion.Group && ref.Kind == clusterv1.ClusterKind {
			return ref.Name
		}
	}
	return obj.GetLabels()[clusterv1.ClusterNameLabel]
}

// IsMoved reports whether clusterctl has moved an object to another management cluster and deletes
// it here: what the object manages belongs to the other one. clusterctl writes the annotation in
// place of all others, also of that which paused the object.
func IsMoved(obj client.Object) bool {
	_, moved := obj.GetAnnotations()[deleteForMoveAnnotation]
	return moved
}

// pause writes the Paused condition. It reports whether the object is paused,
// and whether the condition was True before.
func pause(obj Object, kind string, cluster *clusterv1.Cluster) (paused, wasPaused bool) {
	wasPaused = conditions.IsTrue(obj, clusterv1.PausedCondition)

	var causes []string
	if cluster != nil && cluster.Spec.Paused != nil && *cluster.Spec.Paused {
		causes = append(causes, "Cluster spec.paused is set to true")
	}
	if annotations.HasPaused(obj) {
		causes = append(causes, fmt.Sprintf("%s has the %s annotation", kind, clusterv1.PausedAnnotation))
	}
	if IsMoved(obj) {
		causes = append(causes, fmt.Sprintf("clusterctl has moved %s to another management cluster and deletes it here", kind))
	}

	c := metav1.Condition{
		Type:   clusterv1.PausedCondition,
		Status: metav1.ConditionFalse,
		Reason: clusterv1.NotPausedReason,
	}
	if len(causes) > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, clusterv1.PausedReason, strings.Join(causes, ", ")
	}
	conditions.Set(obj, c)
	return len(causes) > 0, wasPaused
}

// externallyManaged reports whether another system manages the object. The
// Cluster API contract specifies a label, its code reads an annotation.
func externallyManaged(obj client.Object) bool {
	_, labelled := obj.GetLabels()[clusterv1.ManagedByAnnotation]
	return labelled || annotations.IsExternallyManaged(obj)
}
