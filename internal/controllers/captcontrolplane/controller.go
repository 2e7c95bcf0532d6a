// Package captcontrolplane makes managed control planes: it runs the template,
// keeps endpoint and kubeconfig, raises the version one minor at a time, and
// takes everything down in order.
package captcontrolplane

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/aws"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/reconcile"
)

// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinedeployments;captmachinesets;captmachines;captmachinepools,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates;workspaceproviderconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=addons.cluster.x-k8s.io,resources=captaddons,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch

// Cloud is what only the cloud itself can tell or do. Each call blocks for
// seconds at most; errors are faults where a person has to act.
type Cloud interface {
	// EnsureSpotRole makes sure of the account-wide role; it is idempotent and
	// tells whether the role was made now.
	EnsureSpotRole(ctx context.Context, credentials *workspace.Credentials, region string) (created bool, err error)
	// Token signs a token for a cluster.
	Token(ctx context.Context, credentials *workspace.Credentials, region, roleARN, cluster string) (aws.Token, error)
}

// Reconciler makes managed control planes.
type Reconciler struct {
	Client client.Client
	// Live reads past the cache.
	Live       client.Reader
	Workspaces *workspace.Keeper
	Cloud      Cloud
	Workload   Workload
	// Clusters tells when the connection to a workload cluster comes or goes.
	Clusters clustercache.ClusterCache
	// Versions, if set, are asked before an upgrade.
	Versions Versions
	// WatchFilter restricts the controller to objects with the label's value.
	WatchFilter string
	Recorder    events.EventRecorder
	// Now is the clock.
	Now func() time.Time
}

// probeFailure is how long a workload cluster may be silent before it is
// looked at.
const probeFailure = 25 * time.Second

// SetupWithManager adds the controller and what it watches. The manager's cache
// must be indexed by workspace.Index.
func (r *Reconciler) SetupWithManager(_ context.Context, mgr ctrl.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		For(&controlplanev1.CAPTControlPlane{}).
		Owns(&infrav1.WorkspaceTemplateApply{}).
		Owns(&corev1.Secret{}).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster)).
		Watches(&infrav1.CAPTCluster{}, handler.EnqueueRequestsFromMapFunc(r.ofMember)).
		Watches(&addonsv1.CAPTAddon{}, handler.EnqueueRequestsFromMapFunc(r.ofAddon)).
		Watches(&infrav1.WorkspaceTemplate{}, handler.EnqueueRequestsFromMapFunc(r.ofTemplate)).
		Watches(&infrav1.CAPTMachineDeployment{}, handler.EnqueueRequestsFromMapFunc(r.ofMember)).
		Watches(&infrav1.CAPTMachineSet{}, handler.EnqueueRequestsFromMapFunc(r.ofLeaving)).
		Watches(&infrav1.CAPTMachine{}, handler.EnqueueRequestsFromMapFunc(r.ofLeaving)).
		Watches(&infrav1.CAPTMachinePool{}, handler.EnqueueRequestsFromMapFunc(r.ofLeaving)).
		WatchesRawSource(r.Clusters.GetClusterSource("captcontrolplane", ofCluster, clustercache.WatchForProbeFailure(probeFailure))).
		WithOptions(options).
		Named("captcontrolplane").
		Complete(r.frame())
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	return nil
}

// frame is the table of contents of the controller.
func (r *Reconciler) frame() *reconcile.Frame[*controlplanev1.CAPTControlPlane, scope] {
	return &reconcile.Frame[*controlplanev1.CAPTControlPlane, scope]{
		Client:      r.Client,
		WatchFilter: r.WatchFilter,
		Finalizer:   controlplanev1.CAPTControlPlaneFinalizer,
		Scope:       r.scope,
		Steps: []reconcile.Step[scope]{
			{Condition: controlplanev1.InfrastructureReadyCondition, Run: r.infrastructure, Message: infrastructureMessage, ContinueIf: initialized},
			{Condition: controlplanev1.SpotRoleReadyCondition, Run: r.spotRole, ReasonOf: spotRoleReason, ContinueIf: initialized},
			{Condition: controlplanev1.WorkspaceReadyCondition, Run: r.workspace, Message: workspaceMessage, ContinueIf: initialized},
			{Condition: controlplanev1.EndpointReadyCondition, Run: r.endpoint, Message: endpointMessage, ContinueIf: initialized},
			{Condition: controlplanev1.KubeconfigReadyCondition, Run: r.kubeconfig, Message: kubeconfigMessage, RequeueAfter: r.renewal, ContinueIf: initialized},
			{Condition: controlplanev1.AvailableCondition, Run: r.available},
			{Run: r.adopt},
		},
		Delete: []reconcile.Step[scope]{
			{Run: r.find},
			{Condition: controlplanev1.NodesGoneCondition, Run: r.nodesGone},
			{Condition: controlplanev1.LoadBalancersGoneCondition, Run: r.loadBalancersGone},
			{Condition: controlplanev1.AddonsGoneCondition, Run: r.addonsGone},
			{Condition: controlplanev1.MachinesGoneCondition, Run: r.machinesGone},
			{Condition: infrav1.DestroyedCondition, Run: r.destroy},
			{Run: r.forget},
		},
		OnTransition: r.announce,
	}
}

// initialized tells whether the API server has taken requests. From then on a
// step that waits does not keep the token from being renewed.
func initialized(s *scope) bool {
	done := s.controlPlane.Status.Initialization.ControlPlaneInitialized
	return done != nil && *done
}
