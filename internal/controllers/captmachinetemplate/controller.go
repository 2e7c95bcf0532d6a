// Package captmachinetemplate reports the capacity of the nodes of CAPTMachineTemplates,
// so that Cluster Autoscaler can scale a MachineDeployment from zero.
package captmachinetemplate

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/capacity"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinetemplates/status,verbs=patch

// Reconciler reconciles CAPTMachineTemplates.
type Reconciler struct {
	Client client.Client
	// WatchFilter restricts the controller to objects with the label's value.
	WatchFilter string
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.CAPTMachineTemplate{}).
		WithOptions(options).
		Named("captmachinetemplate").
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	return nil
}

// Reconcile writes the capacity of a template's instance type. A type that CAPT does not
// know has none, so that a user can set the annotations of Cluster Autoscaler instead.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	template := &infrav1.CAPTMachineTemplate{}
	if err := r.Client.Get(ctx, req.NamespacedName, template); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !template.DeletionTimestamp.IsZero() || r.WatchFilter != "" && template.Labels[clusterv1.WatchLabel] != r.WatchFilter {
		return ctrl.Result{}, nil
	}
	before := template.DeepCopy()
	resources, node := capacity.Of(template.Spec.Template.Spec.InstanceType)
	if resources == nil {
		// The type is unknown. Another tool may write the status.
		return ctrl.Result{}, nil
	}
	template.Status.Capacity, template.Status.NodeInfo = resources, node
	if equality.Semantic.DeepEqual(before.Status, template.Status) {
		return ctrl.Result{}, nil
	}
	if err := r.Client.Status().Patch(ctx, template, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("writing the capacity: %w", err)
	}
	return ctrl.Result{}, nil
}
