package captaddon

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/reconcile"
)

// addonsOfAddon returns the add-ons that may wait for another one: its
// dependents to be installed, its dependencies to be removed.
func (r *Reconciler) addonsOfAddon(ctx context.Context, obj client.Object) []ctrl.Request {
	addon, ok := obj.(*addonsv1.CAPTAddon)
	if !ok {
		return nil
	}
	return r.requests(ctx, obj.GetNamespace(), func(other *addonsv1.CAPTAddon) bool {
		return render.DependsOn(other, addon.Name) || render.DependsOn(addon, other.Name)
	})
}

// addonsOfCluster returns the add-ons that select a Cluster or are installed in
// it.
func (r *Reconciler) addonsOfCluster(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.requests(ctx, obj.GetNamespace(), func(addon *addonsv1.CAPTAddon) bool { return concerns(addon, obj) })
}

// addonsOfBinding returns the add-ons in the cluster of a
// ClusterResourceSetBinding, which has the name of the cluster.
func (r *Reconciler) addonsOfBinding(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.addonsOfClusterNamed(ctx, client.ObjectKeyFromObject(obj))
}

// addonsOfControlPlane returns the add-ons in the cluster of a control plane.
func (r *Reconciler) addonsOfControlPlane(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.addonsOfClusterNamed(ctx, client.ObjectKey{Namespace: obj.GetNamespace(), Name: obj.GetLabels()[clusterv1.ClusterNameLabel]})
}

func (r *Reconciler) addonsOfClusterNamed(ctx context.Context, cluster client.ObjectKey) []ctrl.Request {
	return r.requests(ctx, cluster.Namespace, func(addon *addonsv1.CAPTAddon) bool { return addon.StatusIn(cluster.Name) != nil })
}

// addonsOfSource returns the add-ons that use a Secret or ConfigMap, and the copies of those that
// use one beside the add-on.
func (r *Reconciler) addonsOfSource(ctx context.Context, obj client.Object) []ctrl.Request {
	var controlPlanes controlplanev1.CAPTControlPlaneList
	if err := r.listControlPlanes(ctx, &controlPlanes, obj.GetNamespace(), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing control planes failed")
		return nil
	}
	clusters := map[string]render.Cluster{}
	for i := range controlPlanes.Items {
		name := controlPlanes.Items[i].Labels[clusterv1.ClusterNameLabel]
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: obj.GetNamespace(), Name: name}}
		clusters[name] = render.ClusterOf(cluster, &controlPlanes.Items[i])
	}
	return r.requests(ctx, "", func(addon *addonsv1.CAPTAddon) bool {
		return addon.Namespace == obj.GetNamespace() && usesSource(addon, obj.GetName(), clusters) ||
			lender(addon) == obj.GetNamespace() && usesSource(addon, obj.GetName(), nil)
	})
}

func (r *Reconciler) requests(ctx context.Context, namespace string, match func(*addonsv1.CAPTAddon) bool) []ctrl.Request {
	return reconcile.Requests(ctx, r.Client, &addonsv1.CAPTAddonList{}, match, client.InNamespace(namespace))
}

// concerns reports whether an add-on selects a Cluster or is installed in it.
func concerns(addon *addonsv1.CAPTAddon, cluster client.Object) bool {
	return addon.Selects(cluster.GetLabels()) || addon.StatusIn(cluster.GetName()) != nil
}

// usesSource reports whether an add-on takes manifests from a ConfigMap or Secret
// of that name, or outputs from a connection Secret of that name, or whether the
// repository of its chart needs a Secret of that name. The clusters are
// those with a CAPTControlPlane, by name.
func usesSource(addon *addonsv1.CAPTAddon, name string, clusters map[string]render.Cluster) bool {
	for _, m := range addon.Spec.Manifests {
		if m.ConfigMapRef != nil && m.ConfigMapRef.Name == name || m.SecretRef != nil && m.SecretRef.Name == name {
			return true
		}
	}
	if slices.Contains(render.ChartSecretNames(addon), name) {
		return true
	}
	for i := range addon.Status.Clusters {
		cluster, found := clusters[addon.Status.Clusters[i].Name]
		if !found {
			cluster = render.Cluster{Name: addon.Status.Clusters[i].Name, Namespace: addon.Namespace}
		}
		secret, err := render.ConnectionSecretName(addon, cluster)
		if err == nil && secret == name {
			return true
		}
	}
	return false
}
