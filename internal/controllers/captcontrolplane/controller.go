// Package captcontrolplane reconciles CAPTControlPlanes. It applies the template,
// publishes the endpoint and the kubeconfig, upgrades one minor version at a time,
// and deletes everything in order.
package captcontrolplane

import (
	"context"
	"fmt"
	"slices"
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

// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes/status,verbs=patch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinedeployments;captmachinesets;captmachines;captmachinepools,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates;workspaceproviderconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=addons.cluster.x-k8s.io,resources=captaddons,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captreferencegrants,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
//
// The policy capt-approval asks for it when a workspace gets its owner.
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspaceapprovals,verbs=create;approve-own

// Cloud makes the calls to the cloud that Terraform does not make. Each call
// blocks for seconds at most. An error that a user has to fix is a fault.
type Cloud interface {
	// EnsureSpotRole creates the EC2 Spot service-linked role of the account, that of
	// roleARN if it is set, if it does not exist. It is idempotent, and reports whether
	// it created the role.
	EnsureSpotRole(ctx context.Context, credentials *workspace.Credentials, region, roleARN string) (created bool, err error)
	// Token signs a token for an EKS cluster, as roleARN if it is set. With lent
	// credentials it fails unless the cluster is in their account.
	Token(ctx context.Context, credentials *workspace.Credentials, region, roleARN string, cluster aws.Cluster) (aws.Token, error)
	// SweepLeftovers returns what the controllers of a cluster left in the account, and
	// requests its deletion if the query says so. It is idempotent.
	SweepLeftovers(ctx context.Context, credentials *workspace.Credentials, region string, query aws.LeftoverQuery) (aws.Leftovers, error)
}

// Reconciler reconciles CAPTControlPlanes.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server, without a cache.
	Live       client.Reader
	Workspaces *workspace.Keeper
	Cloud      Cloud
	Workload   Workload
	// Clusters reports when a workload cluster is connected or disconnected.
	Clusters clustercache.ClusterCache
	// Versions, if set, checks the add-ons before an upgrade.
	Versions Versions
	// WatchFilter, if set, restricts the controller to objects with this value of
	// the watch label.
	WatchFilter string
	Recorder    events.EventRecorder
	// Now returns the current time.
	Now func() time.Time
}

// probeFailureThreshold is the time without a successful health probe after which
// the control plane of a workload cluster is reconciled.
const probeFailureThreshold = 25 * time.Second

// SetupWithManager adds the controller and its watches to a manager. The manager's
// cache must have the index of workspace.Index.
func (r *Reconciler) SetupWithManager(_ context.Context, mgr ctrl.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		For(&controlplanev1.CAPTControlPlane{}).
		Owns(&infrav1.WorkspaceTemplateApply{}).
		Owns(&corev1.Secret{}).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(requestsForCluster)).
		Watches(&infrav1.CAPTCluster{}, handler.EnqueueRequestsFromMapFunc(r.requestsForMember)).
		Watches(&addonsv1.CAPTAddon{}, handler.EnqueueRequestsFromMapFunc(r.requestsForAddon)).
		Watches(&infrav1.WorkspaceTemplate{}, handler.EnqueueRequestsFromMapFunc(r.requestsForTemplate)).
		Watches(&infrav1.CAPTMachineDeployment{}, handler.EnqueueRequestsFromMapFunc(r.requestsForMember)).
		Watches(&infrav1.CAPTMachineSet{}, handler.EnqueueRequestsFromMapFunc(r.requestsForDeleting)).
		Watches(&infrav1.CAPTMachine{}, handler.EnqueueRequestsFromMapFunc(r.requestsForDeleting)).
		Watches(&infrav1.CAPTMachinePool{}, handler.EnqueueRequestsFromMapFunc(r.requestsForDeleting)).
		WatchesRawSource(r.Clusters.GetClusterSource("captcontrolplane", requestsForCluster, clustercache.WatchForProbeFailure(probeFailureThreshold))).
		WithOptions(options).
		Named("captcontrolplane").
		Complete(r.frame())
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	return nil
}

// isEnding reports whether the Cluster of a control plane is being deleted. Cluster API
// deletes the workers first and then the control plane, but what controllers of the
// cluster have created must be deleted while they have nodes to run on.
func isEnding(controlPlane *controlplanev1.CAPTControlPlane, cluster *clusterv1.Cluster) bool {
	return cluster != nil && !cluster.DeletionTimestamp.IsZero() && controlPlane.DeletionTimestamp.IsZero() &&
		isInitialized(&scope{controlPlane: controlPlane})
}

// frame returns the steps of the controller.
func (r *Reconciler) frame() *reconcile.Frame[*controlplanev1.CAPTControlPlane, scope] {
	return &reconcile.Frame[*controlplanev1.CAPTControlPlane, scope]{
		Client:      r.Client,
		WatchFilter: r.WatchFilter,
		Finalizer:   controlplanev1.CAPTControlPlaneFinalizer,
		Scope:       r.scope,
		Steps: []reconcile.Step[scope]{
			{Run: forgetDeletion, ContinueIf: isInitialized},
			{Condition: controlplanev1.InfrastructureReadyCondition, Run: r.infrastructure, Message: infrastructureMessage, ContinueIf: isInitialized},
			{Condition: controlplanev1.SpotRoleReadyCondition, Run: r.spotRole, ReasonOf: spotRoleReason, ContinueIf: isInitialized},
			{Condition: controlplanev1.WorkspaceReadyCondition, Run: r.workspace, Message: workspaceMessage, RequeueAfter: seesNodesIn, ContinueIf: isInitialized},
			{Condition: controlplanev1.EndpointReadyCondition, Run: endpoint, Message: endpointMessage, ContinueIf: isInitialized},
			{Condition: controlplanev1.KubeconfigReadyCondition, Run: r.kubeconfig, Message: kubeconfigMessage, RequeueAfter: renewsIn, ContinueIf: isInitialized},
			{Condition: controlplanev1.AvailableCondition, Run: r.available},
			{Run: recordRollout},
			{Run: r.adoptDeployments},
		},
		// What needs nodes is deleted before Cluster API deletes them: machines and node
		// groups wait for these steps. Nothing is applied any more.
		Ending:      isEnding,
		EndingSteps: append([]reconcile.Step[scope]{{Run: r.readForDeletion}}, r.endingSteps()...),
		Delete: slices.Concat([]reconcile.Step[scope]{{Run: r.readForDeletion}}, r.endingSteps(), []reconcile.Step[scope]{
			deletionStep(controlplanev1.MachinesGoneCondition, r.deleteMachines),
			deletionStep(controlplanev1.LeftoversGoneCondition, r.deleteLeftovers),
			deletionStep(infrav1.DestroyedCondition, r.destroy),
			{Run: r.deleteSecrets},
		}),
		OnTransition: r.announce,
	}
}

// endingSteps delete what needs nodes.
func (r *Reconciler) endingSteps() []reconcile.Step[scope] {
	return []reconcile.Step[scope]{
		deletionStep(controlplanev1.GuardedCondition, r.guard),
		deletionStep(controlplanev1.LoadBalancersGoneCondition, r.deleteLoadBalancers),
		deletionStep(controlplanev1.VolumesGoneCondition, r.deleteVolumes),
		deletionStep(controlplanev1.NodesGoneCondition, r.deleteNodes),
		deletionStep(controlplanev1.AddonsGoneCondition, r.waitForAddons),
	}
}

// deletionStep returns a step of the deletion. Its condition reports what the step leaves
// behind, also after it has passed.
func deletionStep(condition string, run func(context.Context, *scope) error) reconcile.Step[scope] {
	return reconcile.Step[scope]{
		Condition: condition, Run: run,
		ReasonOf: func(s *scope) string { return s.noteOf(condition).reason },
		Message:  func(s *scope) string { return s.noteOf(condition).message },
	}
}

// isInitialized reports whether the API server has ever been available. From then
// on, a step that waits does not prevent the renewal of the token.
func isInitialized(s *scope) bool {
	done := s.controlPlane.Status.Initialization.ControlPlaneInitialized
	return done != nil && *done
}
