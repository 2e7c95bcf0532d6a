// Package captmachinepool reconciles CAPTMachinePools, each of which is a managed
// node group. It runs the template and reports the nodes of the cluster to Cluster API.
package captmachinepool

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

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinepools,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinepools/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinepools/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters;workspacetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspaceoperations,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinepools,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch

// Reconciler reconciles CAPTMachinePools.
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
}

// SetupWithManager adds the controller and its watches to the manager. The cache
// must have the index of workspace.Index.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	requestsForMachinePool := util.MachinePoolToInfrastructureMapFunc(ctx, infrav1.GroupVersion.WithKind("CAPTMachinePool"))
	built, err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.CAPTMachinePool{}).
		Owns(&infrav1.WorkspaceTemplateApply{}).
		Watches(&clusterv1.MachinePool{}, handler.EnqueueRequestsFromMapFunc(requestsForMachinePool)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.requestsForCluster)).
		Watches(&controlplanev1.CAPTControlPlane{}, handler.EnqueueRequestsFromMapFunc(r.requestsForControlPlane)).
		Watches(&infrav1.WorkspaceTemplate{}, handler.EnqueueRequestsFromMapFunc(r.requestsForTemplate)).
		WatchesRawSource(r.Clusters.GetClusterSource("captmachinepool", r.requestsForCluster)).
		WithOptions(options).
		Named("captmachinepool").
		Build(r.frame())
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	r.nodes = nodes.Source{Clusters: r.Clusters, Name: "captmachinepool-nodes", Controller: built, Requests: r.requestsForNode}
	return nil
}

// frame lists the steps of the controller.
func (r *Reconciler) frame() *reconcile.Frame[*infrav1.CAPTMachinePool, scope] {
	return &reconcile.Frame[*infrav1.CAPTMachinePool, scope]{
		Client:      r.Client,
		WatchFilter: r.WatchFilter,
		Finalizer:   infrav1.CAPTMachinePoolFinalizer,
		Scope:       r.scope,
		Steps: []reconcile.Step[scope]{
			{Condition: infrav1.NodeGroupReadyCondition, Run: r.nodeGroup, Message: nodeGroupMessage, ContinueIf: provisioned},
			{Condition: infrav1.MembersKnownCondition, Run: r.members, Informational: true, RequeueAfter: func(s *scope) time.Duration { return s.nextRetirement }},
			{Condition: infrav1.VersionCurrentCondition, Run: version, Informational: true},
			{Condition: infrav1.ReplicasReadyCondition, Run: r.replicas, ReasonOf: replicasReason, Message: replicasMessage},
		},
		Delete: []reconcile.Step[scope]{
			{Condition: infrav1.DestroyedCondition, Run: r.destroy},
		},
		OnTransition: reconcile.Announce[*infrav1.CAPTMachinePool, scope](r.Recorder, transitionEvents),
	}
}

// provisioned reports whether the node group has ever been provisioned. From then
// on the nodes are observed whatever the state of the workspace is.
func provisioned(s *scope) bool {
	done := s.pool.Status.Initialization.Provisioned
	return done != nil && *done
}

// destroy destroys the node group.
func (r *Reconciler) destroy(ctx context.Context, s *scope) error {
	if err := nodes.WaitForTeardown(ctx, r.Client, s.cluster); err != nil {
		return err
	}
	return r.Workspaces.Remove(ctx, s.pool, false, s.pool.Spec.Workspace)
}
