// Package captbootstrapconfig reconciles CAPTBootstrapConfigs. The template of a
// node makes it join the cluster, so the bootstrap data are the user data of the
// spec, or empty.
package captbootstrapconfig

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	bootstrapv1 "github.com/appthrust/capt/api/bootstrap/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
)

// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=captbootstrapconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=captbootstrapconfigs/status,verbs=patch
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=captbootstrapconfigs/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch

// Reconciler reconciles CAPTBootstrapConfigs.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server. The cache contains only Secrets of CAPT.
	Live client.Reader
	// WatchFilter restricts the controller to objects with the label's value.
	WatchFilter string
	Recorder    events.EventRecorder
}

// SetupWithManager adds the controller and its watches to the manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	requestsForCluster, err := util.ClusterToTypedObjectsMapper(mgr.GetClient(), &bootstrapv1.CAPTBootstrapConfigList{}, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("mapping Clusters: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&bootstrapv1.CAPTBootstrapConfig{}).
		Owns(&corev1.Secret{}).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(requestsForCluster)).
		WithOptions(options).
		Named("captbootstrapconfig").
		Complete(r.frame())
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	return nil
}

// frame lists the steps of the controller. It has none for deletion: the garbage
// collector deletes the Secret.
func (r *Reconciler) frame() *reconcile.Frame[*bootstrapv1.CAPTBootstrapConfig, scope] {
	return &reconcile.Frame[*bootstrapv1.CAPTBootstrapConfig, scope]{
		Client:      r.Client,
		WatchFilter: r.WatchFilter,
		Scope:       r.scope,
		Steps: []reconcile.Step[scope]{
			{Condition: bootstrapv1.DataSecretAvailableCondition, Run: r.dataSecret, Message: dataSecretMessage},
		},
		OnTransition: reconcile.Announce[*bootstrapv1.CAPTBootstrapConfig, scope](r.Recorder, transitionEvents),
	}
}

var transitionEvents = reconcile.EventTable{
	Rules:    []reconcile.EventRule{{Conditions: []string{bootstrapv1.DataSecretAvailableCondition}}},
	Warnings: []string{bootstrapv1.SecretConflictReason},
}
