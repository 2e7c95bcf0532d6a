package captaddon

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/reconcile"
)

// ofAddon finds the add-ons that may wait for another one: those that depend on
// it, to be installed, and those that it depends on, to be removed.
func (r *Reconciler) ofAddon(ctx context.Context, obj client.Object) []ctrl.Request {
	addon, ok := obj.(*addonsv1.CAPTAddon)
	if !ok {
		return nil
	}
	return r.requests(ctx, obj.GetNamespace(), func(other *addonsv1.CAPTAddon) bool {
		return render.DependsOn(other, addon.Name) || render.DependsOn(addon, other.Name)
	})
}

// ofCluster finds the add-ons that a Cluster has or is to have.
func (r *Reconciler) ofCluster(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.requests(ctx, obj.GetNamespace(), func(addon *addonsv1.CAPTAddon) bool {
		selector, err := metav1.LabelSelectorAsSelector(&addon.Spec.ClusterSelector)
		return err == nil && selector.Matches(labels.Set(obj.GetLabels())) || has(addon, obj.GetName())
	})
}

// ofBinding finds the add-ons of the cluster that a binding is named after.
func (r *Reconciler) ofBinding(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.ofClusterName(ctx, client.ObjectKeyFromObject(obj))
}

// ofControlPlane finds the add-ons of the cluster of a control plane.
func (r *Reconciler) ofControlPlane(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.ofClusterName(ctx, client.ObjectKey{Namespace: obj.GetNamespace(), Name: obj.GetLabels()[clusterv1.ClusterNameLabel]})
}

func (r *Reconciler) ofClusterName(ctx context.Context, cluster client.ObjectKey) []ctrl.Request {
	return r.requests(ctx, cluster.Namespace, func(addon *addonsv1.CAPTAddon) bool { return has(addon, cluster.Name) })
}

// ofSource finds the add-ons that take outputs or manifests from a Secret or a
// ConfigMap.
func (r *Reconciler) ofSource(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.requests(ctx, obj.GetNamespace(), func(addon *addonsv1.CAPTAddon) bool {
		for _, m := range addon.Spec.Manifests {
			if m.ConfigMapRef != nil && m.ConfigMapRef.Name == obj.GetName() || m.SecretRef != nil && m.SecretRef.Name == obj.GetName() {
				return true
			}
		}
		for i := range addon.Status.Clusters {
			name, err := render.ConnectionSecretName(addon, render.Cluster{Name: addon.Status.Clusters[i].Name, Namespace: addon.Namespace})
			if err == nil && name == obj.GetName() {
				return true
			}
		}
		return false
	})
}

func has(addon *addonsv1.CAPTAddon, cluster string) bool {
	for i := range addon.Status.Clusters {
		if addon.Status.Clusters[i].Name == cluster {
			return true
		}
	}
	return false
}

func (r *Reconciler) requests(ctx context.Context, namespace string, match func(*addonsv1.CAPTAddon) bool) []ctrl.Request {
	return reconcile.Requests(ctx, r.Client, &addonsv1.CAPTAddonList{}, match, client.InNamespace(namespace))
}
