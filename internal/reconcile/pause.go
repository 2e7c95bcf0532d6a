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

// WaitingForClusterReason surfaces when an object names a Cluster that does
// not exist, or is not in the cache yet.
const WaitingForClusterReason = "WaitingForCluster"

// OwnerCluster finds the Cluster that an object belongs to, by owner reference
// and then by the cluster-name label. It returns nil when the object names
// none.
//
// A named Cluster that cannot be found is a wait, not a nil: while objects are
// being moved to another management cluster, theirs may be there, and paused,
// before the cache knows it. An object that is being deleted does not wait for
// it, for a Cluster that was taken away by force does not come back.
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

func ownerClusterName(obj client.Object) string {
	for _, ref := range obj.GetOwnerReferences() {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err == nil && gv.Group == clusterv1.GroupVersion.Group && ref.Kind == clusterv1.ClusterKind {
			return ref.Name
		}
	}
	return obj.GetLabels()[clusterv1.ClusterNameLabel]
}

// pause writes the Paused condition and tells whether the object is paused
// now, and whether it was when it was read.
func pause(obj Object, kind string, cluster *clusterv1.Cluster) (paused, was bool) {
	was = conditions.IsTrue(obj, clusterv1.PausedCondition)

	var why []string
	if cluster != nil && cluster.Spec.Paused != nil && *cluster.Spec.Paused {
		why = append(why, "Cluster spec.paused is set to true")
	}
	if annotations.HasPaused(obj) {
		why = append(why, fmt.Sprintf("%s has the %s annotation", kind, clusterv1.PausedAnnotation))
	}

	c := metav1.Condition{
		Type:   clusterv1.PausedCondition,
		Status: metav1.ConditionFalse,
		Reason: clusterv1.NotPausedReason,
	}
	if len(why) > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, clusterv1.PausedReason, strings.Join(why, ", ")
	}
	conditions.Set(obj, c)
	return len(why) > 0, was
}

// externallyManaged tells whether another system manages the object. Cluster
// API's contract speaks of a label, its code of an annotation.
func externallyManaged(obj client.Object) bool {
	_, labelled := obj.GetLabels()[clusterv1.ManagedByAnnotation]
	return labelled || annotations.IsExternallyManaged(obj)
}
