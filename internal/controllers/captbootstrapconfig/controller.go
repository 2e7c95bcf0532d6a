// Package captbootstrapconfig makes the bootstrap data of nodes that join by
// what their template does: what a person wrote, or nothing.
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

// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=captbootstrapconfigs,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=captbootstrapconfigs/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=captbootstrapconfigs/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch

// Reconciler makes bootstrap data.
type Reconciler struct {
	Client client.Client
	// Live reads past the cache, which holds CAPT's own Secrets only.
	Live client.Reader
	// WatchFilter restricts the controller to objects with the label's value.
	WatchFilter string
	Recorder    events.EventRecorder
}

// SetupWithManager adds the controller and what it watches.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	ofCluster, err := util.ClusterToTypedObjectsMapper(mgr.GetClient(), &bootstrapv1.CAPTBootstrapConfigList{}, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("mapping Clusters: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&bootstrapv1.CAPTBootstrapConfig{}).
		Owns(&corev1.Secret{}).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster)).
		WithOptions(options).
		Named("captbootstrapconfig").
		Complete(r.frame())
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	return nil
}

// frame is the table of contents of the controller. The Secret goes with its
// owner, so there is nothing to delete.
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
