// Package captmachinedeployment replaces the machines of CAPTMachineDeployments
// when their template changes: it makes a CAPTMachineSet for each template and
// moves machines from the old sets to the new one, step by step. The sets make
// and delete the machines themselves.
package captmachinedeployment

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinedeployments,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinedeployments/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinedeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinesets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch

// Reconciler rolls out CAPTMachineDeployments.
type Reconciler struct {
	Client client.Client
	// APIReader reads past the cache. No set is made, resized, adopted or deleted
	// on the word of the cache alone.
	APIReader client.Reader
	// WatchFilter restricts the controller to objects with the label's value.
	WatchFilter string
	Recorder    events.EventRecorder
	// Now is the clock.
	Now func() time.Time
}

// SetupWithManager adds the controller and what it watches. The numbers of a
// set's status tell when its machines changed.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if err := r.index(ctx, mgr); err != nil {
		return err
	}
	err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.CAPTMachineDeployment{}).
		Watches(&infrav1.CAPTMachineSet{}, handler.EnqueueRequestsFromMapFunc(r.ofSet)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster), builder.WithPredicates(appearsOrPauses())).
		WithOptions(options).
		Named("captmachinedeployment").
		Complete(r.frame())
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	return nil
}

// frame is the table of contents of the controller.
func (r *Reconciler) frame() *reconcile.Frame[*infrav1.CAPTMachineDeployment, scope] {
	return &reconcile.Frame[*infrav1.CAPTMachineDeployment, scope]{
		Client:      r.Client,
		WatchFilter: r.WatchFilter,
		Finalizer:   infrav1.CAPTMachineDeploymentFinalizer,
		Cluster:     r.clusterOf,
		Scope:       r.scope,
		Steps: []reconcile.Step[scope]{
			{Run: r.look},
			{Condition: infrav1.AvailableCondition, Run: r.available, ContinueIf: func(*scope) bool { return true }},
			{Run: r.advance},
			{
				Condition: infrav1.ProgressingCondition, Run: r.progress, Informational: true,
				ReasonOf: progressReason, Message: progressMessage, RequeueAfter: untilDeadline,
			},
			{Run: r.complete},
		},
		Delete: []reconcile.Step[scope]{
			{Run: r.deleteSets},
		},
		OnTransition: reconcile.Announce[*infrav1.CAPTMachineDeployment, scope](r.Recorder, transitionEvents),
	}
}

// clusterOf finds the Cluster by the name that the spec gives: labels and owner
// references may still be missing.
func (r *Reconciler) clusterOf(ctx context.Context, d *infrav1.CAPTMachineDeployment) (*clusterv1.Cluster, error) {
	named := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: d.Namespace, DeletionTimestamp: d.DeletionTimestamp,
		Labels: map[string]string{clusterv1.ClusterNameLabel: d.Spec.ClusterName},
	}}
	return reconcile.OwnerCluster(ctx, r.Client, named)
}
