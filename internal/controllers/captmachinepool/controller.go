// Package captmachinepool makes managed node groups: it runs the template, tells
// Cluster API of the nodes, and has the list of them read anew when nodes come
// or go by themselves.
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

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinepools,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinepools/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinepools/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters;workspacetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machinepools,verbs=get;list;watch

// Reconciler makes managed node groups.
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
}

// SetupWithManager adds the controller and what it watches. The manager's cache
// must be indexed by workspace.Index.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	ofMachinePool := util.MachinePoolToInfrastructureMapFunc(ctx, infrav1.GroupVersion.WithKind("CAPTMachinePool"))
	built, err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.CAPTMachinePool{}).
		Owns(&infrav1.WorkspaceTemplateApply{}).
		Watches(&clusterv1.MachinePool{}, handler.EnqueueRequestsFromMapFunc(ofMachinePool)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster)).
		Watches(&controlplanev1.CAPTControlPlane{}, handler.EnqueueRequestsFromMapFunc(r.ofControlPlane)).
		Watches(&infrav1.WorkspaceTemplate{}, handler.EnqueueRequestsFromMapFunc(r.ofTemplate)).
		WatchesRawSource(r.Clusters.GetClusterSource("captmachinepool", r.ofCluster)).
		WithOptions(options).
		Named("captmachinepool").
		Build(r.frame())
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	r.nodes = nodes.Source{Clusters: r.Clusters, Name: "captmachinepool-nodes", Controller: built, Concerns: r.ofNode}
	return nil
}

// frame is the table of contents of the controller.
func (r *Reconciler) frame() *reconcile.Frame[*infrav1.CAPTMachinePool, scope] {
	return &reconcile.Frame[*infrav1.CAPTMachinePool, scope]{
		Client:      r.Client,
		WatchFilter: r.WatchFilter,
		Finalizer:   infrav1.CAPTMachinePoolFinalizer,
		Scope:       r.scope,
		Steps: []reconcile.Step[scope]{
			{Condition: infrav1.NodeGroupReadyCondition, Run: r.nodeGroup, Message: nodeGroupMessage, ContinueIf: provisioned},
			{Condition: infrav1.MembersKnownCondition, Run: r.members, Informational: true},
			{Condition: infrav1.ReplicasReadyCondition, Run: replicas, ReasonOf: replicasReason, Message: replicasMessage},
		},
		Delete: []reconcile.Step[scope]{
			{Condition: infrav1.DestroyedCondition, Run: r.destroy},
		},
		OnTransition: reconcile.Announce[*infrav1.CAPTMachinePool, scope](r.Recorder, transitionEvents),
	}
}

// provisioned tells whether the node group has been there. From then on its
// nodes are watched whatever its workspace does.
func provisioned(s *scope) bool {
	done := s.pool.Status.Initialization.Provisioned
	return done != nil && *done
}

// destroy takes the node group away.
func (r *Reconciler) destroy(ctx context.Context, s *scope) error {
	return r.Workspaces.Remove(ctx, s.pool, false)
}
