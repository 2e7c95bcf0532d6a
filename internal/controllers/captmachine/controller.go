// Package captmachine reconciles CAPTMachines, each of which is one node. It runs
// the template, reports the instance to Cluster API and observes the node. If no
// Machine of Cluster API owns the CAPTMachine, it also drains the node before it
// destroys the instance.
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

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachines/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters;captmachinepools;workspacetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch

// Reconciler reconciles CAPTMachines.
type Reconciler struct {
	Client     client.Client
	Workspaces *workspace.Keeper
	// Clusters connects to the workload clusters.
	Clusters clustercache.ClusterCache
	// WatchFilter restricts the controller to objects with the label's value.
	WatchFilter string
	Recorder    events.EventRecorder
	// Now returns the current time.
	Now func() time.Time

	nodes nodes.Source
	// owned and standalone reconcile machines with and without an owning Machine.
	owned, standalone *reconcile.Frame[*infrav1.CAPTMachine, scope]
}

// SetupWithManager adds the controller and its watches to the manager. The cache
// must have the index of workspace.Index.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if err := index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r.owned, r.standalone = r.ownedFrame(), r.standaloneFrame()
	requestsForMachine := util.MachineToInfrastructureMapFunc(infrav1.GroupVersion.WithKind("CAPTMachine"))
	built, err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.CAPTMachine{}).
		Owns(&infrav1.WorkspaceTemplateApply{}).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(requestsForMachine)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.requestsForCluster)).
		Watches(&controlplanev1.CAPTControlPlane{}, handler.EnqueueRequestsFromMapFunc(r.requestsForControlPlane)).
		Watches(&infrav1.WorkspaceTemplate{}, handler.EnqueueRequestsFromMapFunc(r.requestsForTemplate)).
		Watches(&infrav1.CAPTMachinePool{}, handler.EnqueueRequestsFromMapFunc(r.requestsForPool)).
		WatchesRawSource(r.Clusters.GetClusterSource("captmachine", r.requestsForCluster)).
		WithOptions(options).
		Named("captmachine").
		Build(r)
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	r.nodes = nodes.Source{Clusters: r.Clusters, Name: "captmachine-nodes", Controller: built, Requests: r.requestsForNode}
	return nil
}

// Reconcile reconciles a machine with the frame for its owner.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	machine := &infrav1.CAPTMachine{}
	if err := r.Client.Get(ctx, req.NamespacedName, machine); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("getting object: %w", err)
		}
		// Both frames drop what they remember about the machine.
		if result, err := r.owned.Reconcile(ctx, req); err != nil {
			return result, err
		}
		return r.standalone.Reconcile(ctx, req)
	}
	if ownershipOf(machine.OwnerReferences) == standalone {
		return r.standalone.Reconcile(ctx, req)
	}
	return r.owned.Reconcile(ctx, req)
}

// standaloneFrame lists the steps for a machine without an owning Machine. It is
// ready when its node is, and this controller drains the node.
func (r *Reconciler) standaloneFrame() *reconcile.Frame[*infrav1.CAPTMachine, scope] {
	return r.frame(
		[]reconcile.Step[scope]{
			{Condition: infrav1.InstanceReadyCondition, Run: r.instance, ReasonOf: instanceReason, Message: instanceMessage, ContinueIf: provisioned},
			{Condition: infrav1.NodeReadyCondition, Run: r.node, Message: nodeMessage, ContinueIf: func(*scope) bool { return true }},
			{Condition: infrav1.NodeUpdatedCondition, Run: r.settings, Informational: true},
			{Condition: infrav1.VersionCurrentCondition, Run: version, Informational: true},
		},
		[]reconcile.Step[scope]{
			{Condition: infrav1.DrainedCondition, Run: r.drain, ReasonOf: drainedReason, Message: drainedMessage},
			{Condition: infrav1.DestroyedCondition, Run: r.destroy},
			{Run: r.removeNode},
		},
	)
}

// ownedFrame lists the steps for a machine with an owning Machine, whose controller
// observes, drains and deletes the node. The machine is ready when its instance is.
func (r *Reconciler) ownedFrame() *reconcile.Frame[*infrav1.CAPTMachine, scope] {
	return r.frame(
		[]reconcile.Step[scope]{
			{Condition: infrav1.InstanceReadyCondition, Run: r.instance, ReasonOf: instanceReason, Message: instanceMessage, ContinueIf: provisioned},
			{Condition: infrav1.NodeReadyCondition, Run: r.node, Message: nodeMessage, Informational: true},
			{Condition: infrav1.NodeUpdatedCondition, Run: r.settings, Informational: true},
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

// provisioned reports whether the instance has ever been provisioned. From then on
// the node is observed whatever the state of the workspace is.
func provisioned(s *scope) bool {
	done := s.machine.Status.Initialization.Provisioned
	return done != nil && *done
}
