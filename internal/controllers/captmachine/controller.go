// Package captmachine makes single nodes: it runs the template, tells Cluster
// API of the instance, watches the node and, where no Cluster API Machine does
// it, drains the node before the instance goes.
package captmachine

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/reconcile"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachines,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachines/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachines/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters;captmachinepools;workspacetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch

// Reconciler makes single nodes.
type Reconciler struct {
	Client     client.Client
	Workspaces *workspace.Keeper
	// Clusters reaches the clusters of the nodes.
	Clusters clustercache.ClusterCache
	// WatchFilter restricts the controller to objects with the label's value.
	WatchFilter string
	Recorder    events.EventRecorder
	// Now is the clock.
	Now func() time.Time

	nodes nodes.Source
	// driven and alone are the tables of contents of a machine with and without
	// a Cluster API Machine above it.
	driven, alone *reconcile.Frame[*infrav1.CAPTMachine, scope]
}

// SetupWithManager adds the controller and what it watches. The manager's cache
// must be indexed by workspace.Index.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if err := index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r.driven, r.alone = r.drivenFrame(), r.aloneFrame()
	ofMachine := util.MachineToInfrastructureMapFunc(infrav1.GroupVersion.WithKind("CAPTMachine"))
	built, err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.CAPTMachine{}).
		Owns(&infrav1.WorkspaceTemplateApply{}).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(ofMachine)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster)).
		Watches(&controlplanev1.CAPTControlPlane{}, handler.EnqueueRequestsFromMapFunc(r.ofControlPlane)).
		Watches(&infrav1.WorkspaceTemplate{}, handler.EnqueueRequestsFromMapFunc(r.ofTemplate)).
		Watches(&infrav1.CAPTMachinePool{}, handler.EnqueueRequestsFromMapFunc(r.ofPool)).
		WatchesRawSource(r.Clusters.GetClusterSource("captmachine", r.ofCluster)).
		WithOptions(options).
		Named("captmachine").
		Build(r)
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	r.nodes = nodes.Source{Clusters: r.Clusters, Name: "captmachine-nodes", Controller: built, Concerns: r.ofNode}
	return nil
}

// Reconcile runs the frame that fits who is above the machine.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	machine := &infrav1.CAPTMachine{}
	if err := r.Client.Get(ctx, req.NamespacedName, machine); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("getting object: %w", err)
		}
		// Each frame forgets what it knew of it.
		if result, err := r.driven.Reconcile(ctx, req); err != nil {
			return result, err
		}
		return r.alone.Reconcile(ctx, req)
	}
	if custodyOf(machine.OwnerReferences) == alone {
		return r.alone.Reconcile(ctx, req)
	}
	return r.driven.Reconcile(ctx, req)
}

// aloneFrame is for a machine below a CAPTMachineSet, or below nobody: it is
// ready when its node is, and its node is drained here.
func (r *Reconciler) aloneFrame() *reconcile.Frame[*infrav1.CAPTMachine, scope] {
	return r.frame(
		[]reconcile.Step[scope]{
			{Condition: infrav1.InstanceReadyCondition, Run: r.instance, ReasonOf: instanceReason, Message: instanceMessage, ContinueIf: provisioned},
			{Condition: infrav1.NodeReadyCondition, Run: r.node, Message: nodeMessage},
		},
		[]reconcile.Step[scope]{
			{Condition: infrav1.DrainedCondition, Run: r.drain, ReasonOf: drainedReason, Message: drainedMessage},
			{Condition: infrav1.DestroyedCondition, Run: r.destroy},
			{Run: r.forget},
		},
	)
}

// drivenFrame is for a machine below a Cluster API Machine, which watches the
// node, drains it and removes it: it is ready when its instance is.
func (r *Reconciler) drivenFrame() *reconcile.Frame[*infrav1.CAPTMachine, scope] {
	return r.frame(
		[]reconcile.Step[scope]{
			{Condition: infrav1.InstanceReadyCondition, Run: r.instance, ReasonOf: instanceReason, Message: instanceMessage, ContinueIf: provisioned},
			{Condition: infrav1.NodeReadyCondition, Run: r.node, Message: nodeMessage, Informational: true},
		},
		[]reconcile.Step[scope]{
			{Condition: infrav1.DestroyedCondition, Run: r.destroy},
		},
	)
}

func (r *Reconciler) frame(steps, deletion []reconcile.Step[scope]) *reconcile.Frame[*infrav1.CAPTMachine, scope] {
	return &reconcile.Frame[*infrav1.CAPTMachine, scope]{
		Client: r.Client, WatchFilter: r.WatchFilter, Finalizer: infrav1.CAPTMachineFinalizer,
		Scope: r.scope, Steps: steps, Delete: deletion, OnTransition: reconcile.Announce[*infrav1.CAPTMachine, scope](r.Recorder, transitionEvents),
	}
}

// provisioned tells whether the instance has been there. From then on its node
// is watched whatever its workspace does.
func provisioned(s *scope) bool {
	done := s.machine.Status.Initialization.Provisioned
	return done != nil && *done
}
