// Package captcluster makes the infrastructure of a Cluster: its VPC, by a
// template, or one that is already there.
package captcluster

import (
	"context"
	"fmt"

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

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates;workspaceproviderconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch

// Cloud knows what CAPT did not make.
type Cloud interface {
	// LookUpVPC finds a VPC and the subnets a cluster may use: those that are
	// named, or the fitting ones. It blocks for seconds at most, and its error
	// is a fault where a person has to act.
	LookUpVPC(ctx context.Context, credentials *workspace.Credentials, region, vpcID, cluster string, subnets []string) (aws.VPC, error)
}

// Reconciler makes the infrastructure of Clusters.
type Reconciler struct {
	Client     client.Client
	Workspaces *workspace.Keeper
	Cloud      Cloud
	// WatchFilter restricts the controller to objects with the label's value.
	WatchFilter string
	Recorder    events.EventRecorder
}

// SetupWithManager adds the controller and what it watches. The manager's cache
// must be indexed by workspace.Index.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	ofCluster := util.ClusterToInfrastructureMapFunc(ctx, infrav1.GroupVersion.WithKind("CAPTCluster"), mgr.GetClient(), &infrav1.CAPTCluster{})
	err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.CAPTCluster{}).
		Owns(&infrav1.WorkspaceTemplateApply{}).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster)).
		Watches(&infrav1.WorkspaceTemplate{}, handler.EnqueueRequestsFromMapFunc(r.ofTemplate)).
		Watches(&controlplanev1.CAPTControlPlane{}, handler.EnqueueRequestsFromMapFunc(r.ofControlPlane), builder.WithPredicates(leaves())).
		WithOptions(options).
		Named("captcluster").
		Complete(r.frame())
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	return nil
}

// frame is the table of contents of the controller.
func (r *Reconciler) frame() *reconcile.Frame[*infrav1.CAPTCluster, scope] {
	return &reconcile.Frame[*infrav1.CAPTCluster, scope]{
		Client:      r.Client,
		WatchFilter: r.WatchFilter,
		Finalizer:   infrav1.CAPTClusterFinalizer,
		Scope:       r.scope,
		Steps: []reconcile.Step[scope]{
			{Condition: infrav1.VPCReadyCondition, Run: r.vpc, Message: vpcMessage},
			{Condition: infrav1.FailureDomainsKnownCondition, Run: failureDomains, Message: zonesMessage},
			{Run: provisioned},
		},
		Delete: []reconcile.Step[scope]{
			{Condition: infrav1.ControlPlaneGoneCondition, Run: r.controlPlaneGone},
			{Condition: infrav1.DestroyedCondition, Run: r.destroy, ReasonOf: destroyedReason, Message: destroyedMessage},
		},
		OnTransition: reconcile.Announce[*infrav1.CAPTCluster, scope](r.Recorder, transitionEvents),
	}
}
