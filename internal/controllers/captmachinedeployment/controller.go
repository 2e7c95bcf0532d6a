// Package captmachinedeployment reconciles CAPTMachineDeployments. It creates a
// CAPTMachineSet for each version of the template and scales the new set up and
// the old sets down, step by step. The sets create and delete the machines.
package captmachinedeployment

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/ownership"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/reconcile"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinedeployments,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinedeployments/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinedeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinesets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters;workspacetemplates;workspacetemplateapplies,verbs=get;list;watch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch

// Reconciler reconciles CAPTMachineDeployments.
type Reconciler struct {
	Client client.Client
	// APIReader reads from the API server instead of the cache. Sets are created,
	// resized, adopted and deleted only after it confirmed what the cache says.
	APIReader client.Reader
	// Workspaces reads the workspace of the control plane, whose version the machines
	// follow.
	Workspaces *workspace.Keeper
	// WatchFilter restricts the controller to objects with the label's value.
	WatchFilter string
	Recorder    events.EventRecorder
	// Now returns the current time.
	Now func() time.Time
}

// SetupWithManager adds the controller and its watches to the manager. Machines
// are not watched: a set updates its status when its machines change. The cache must
// have the index of workspace.Index.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if err := index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	watches := r.watches()
	err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.CAPTMachineDeployment{}).
		Watches(&infrav1.CAPTMachineSet{}, handler.EnqueueRequestsFromMapFunc(watches.RequestsForDependent)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(watches.RequestsForCluster), builder.WithPredicates(ownership.ClusterCreatedOrPaused())).
		Watches(&controlplanev1.CAPTControlPlane{}, handler.EnqueueRequestsFromMapFunc(r.requestsForControlPlane)).
		WithOptions(options).
		Named("captmachinedeployment").
		Complete(r.frame())
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	return nil
}

// frame lists the steps of the controller.
func (r *Reconciler) frame() *reconcile.Frame[*infrav1.CAPTMachineDeployment, scope] {
	return &reconcile.Frame[*infrav1.CAPTMachineDeployment, scope]{
		Client:      r.Client,
		WatchFilter: r.WatchFilter,
		Finalizer:   infrav1.CAPTMachineDeploymentFinalizer,
		Cluster: func(ctx context.Context, d *infrav1.CAPTMachineDeployment) (*clusterv1.Cluster, error) {
			return ownership.ClusterOf(ctx, r.Client, d, d.Spec.ClusterName)
		},
		Scope: r.scope,
		Steps: []reconcile.Step[scope]{
			{Run: r.read},
			{Condition: infrav1.AvailableCondition, Run: r.available, ContinueIf: func(*scope) bool { return true }},
			{Run: r.advance},
			{Condition: infrav1.VersionCurrentCondition, Run: r.version, Informational: true},
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
