// Package captcluster reconciles CAPTClusters. The infrastructure of a Cluster is
// a VPC or other infrastructure that a template creates, a VPC that exists already, or none.
package captcluster

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/aws"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/reconcile"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates;workspaceproviderconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captreferencegrants,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
//
// The policy capt-approval asks for it when a workspace gets its owner.
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspaceapprovals,verbs=create;approve-own

// Cloud reads resources that CAPT did not create.
type Cloud interface {
	// LookUpVPC returns a VPC with the subnets that a cluster uses: the given
	// ones, or a selection if none are given. It calls as roleARN if it is set. It
	// blocks for seconds at most. An error that a user has to fix is a fault.
	LookUpVPC(ctx context.Context, credentials *workspace.Credentials, region, roleARN, vpcID, cluster string, subnets []string) (aws.VPC, error)
	// ListVPCUsers returns what prevents the deletion of a VPC. It blocks for seconds at
	// most.
	ListVPCUsers(ctx context.Context, credentials *workspace.Credentials, region, vpcID string) ([]string, error)
}

// Reconciler reconciles CAPTClusters.
type Reconciler struct {
	Client     client.Client
	Workspaces *workspace.Keeper
	Cloud      Cloud
	// WatchFilter, if set, restricts the controller to objects with this value of
	// the watch label.
	WatchFilter string
	Recorder    events.EventRecorder
	// Now returns the current time.
	Now func() time.Time
}

// SetupWithManager adds the controller and its watches to a manager. The manager's
// cache must have the index of workspace.Index.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	requestsForCluster := util.ClusterToInfrastructureMapFunc(ctx, infrav1.GroupVersion.WithKind("CAPTCluster"), mgr.GetClient(), &infrav1.CAPTCluster{})
	err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.CAPTCluster{}).
		Owns(&infrav1.WorkspaceTemplateApply{}).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(requestsForCluster)).
		Watches(&infrav1.WorkspaceTemplate{}, handler.EnqueueRequestsFromMapFunc(r.requestsForTemplate)).
		Watches(&controlplanev1.CAPTControlPlane{}, handler.EnqueueRequestsFromMapFunc(r.requestsForControlPlane), builder.WithPredicates(createdOrDeleted())).
		WithOptions(options).
		Named("captcluster").
		Complete(r.frame())
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	return nil
}

// frame returns the steps of the controller.
func (r *Reconciler) frame() *reconcile.Frame[*infrav1.CAPTCluster, scope] {
	return &reconcile.Frame[*infrav1.CAPTCluster, scope]{
		Client:      r.Client,
		WatchFilter: r.WatchFilter,
		Finalizer:   infrav1.CAPTClusterFinalizer,
		Scope:       r.scope,
		Steps: []reconcile.Step[scope]{
			{Run: r.provisioned},
			{Condition: infrav1.InfrastructureReadyCondition, Run: r.infrastructure, Message: infrastructureMessage},
			{Condition: infrav1.FailureDomainsKnownCondition, Run: setFailureDomains, Message: domainsMessage},
		},
		Delete: []reconcile.Step[scope]{
			{Condition: infrav1.ControlPlaneGoneCondition, Run: r.waitForControlPlane},
			{Condition: infrav1.DestroyedCondition, Run: r.destroy, ReasonOf: destroyedReason, Message: destroyedMessage},
		},
		OnTransition: reconcile.Announce[*infrav1.CAPTCluster, scope](r.Recorder, transitionEvents),
	}
}
