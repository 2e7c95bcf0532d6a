// Package workspaceproviderconfig reconciles WorkspaceProviderConfigs. It checks
// that the configuration parses and that the Secrets exist, and blocks the
// deletion of a config while workspaces use it.
package workspaceproviderconfig

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/object"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/terraform/usage"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspaceproviderconfigs,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspaceproviderconfigs/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspaceproviderconfigs/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates;workspacetemplateapplies;workspaceoperations,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch

// Reconciler reconciles WorkspaceProviderConfigs.
type Reconciler struct {
	Client client.Client
	// Reader reads the Secrets of users. The cache of Client does not contain them.
	Reader client.Reader
	// Metadata watches the metadata of all Secrets.
	Metadata cache.Cache
	// Usage finds the workspaces that use a config.
	Usage usage.Finder
	// WatchFilter restricts the controller to objects with this value of the label
	// cluster.x-k8s.io/watch-filter.
	WatchFilter string
	Recorder    events.EventRecorder
}

// SetupWithManager adds the controller and its watches to the manager. The
// manager's cache must be indexed by usage.Index.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if err := index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	secret := object.Metadata(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.WorkspaceProviderConfig{}, builder.WithPredicates(reconcile.SpecOrMetadataChanged())).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.deletingInNamespace), builder.WithPredicates(reconcile.StopsUsing(usage.ConfigChanged))).
		Watches(&infrav1.WorkspaceOperation{}, handler.EnqueueRequestsFromMapFunc(r.deletingInNamespace), builder.WithPredicates(reconcile.StopsUsing(moveEnded))).
		Watches(&infrav1.WorkspaceTemplate{}, handler.EnqueueRequestsFromMapFunc(r.deleting), builder.WithPredicates(reconcile.StopsUsing(configChanged))).
		WatchesRawSource(source.Kind(r.Metadata, client.Object(secret), handler.EnqueueRequestsFromMapFunc(r.usersOfSecret))).
		WithOptions(options).
		Named("workspaceproviderconfig").
		Complete(r.frame())
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	return nil
}

// frame returns the steps of the controller.
func (r *Reconciler) frame() *reconcile.Frame[*infrav1.WorkspaceProviderConfig, scope] {
	return &reconcile.Frame[*infrav1.WorkspaceProviderConfig, scope]{
		Client:      r.Client,
		WatchFilter: r.WatchFilter,
		Finalizer:   infrav1.WorkspaceProviderConfigFinalizer,
		Cluster:     reconcile.NoCluster[*infrav1.WorkspaceProviderConfig],
		Scope:       r.scope,
		Steps: []reconcile.Step[scope]{
			{Condition: infrav1.ConfigurationValidCondition, Run: configuration},
			{Condition: infrav1.CredentialsFoundCondition, Run: credentials},
		},
		Delete: []reconcile.Step[scope]{
			{Condition: infrav1.DeletableCondition, Run: r.unused},
		},
		OnTransition: reconcile.Announce[*infrav1.WorkspaceProviderConfig, scope](r.Recorder, transitionEvents),
	}
}

// moveEnded reports whether a move of a state has ended.
func moveEnded(previous, current *infrav1.WorkspaceOperation) bool {
	return current.Spec.Type == infrav1.OperationMove && !previous.Ended() && current.Ended()
}

// unused waits until no workspace uses the config.
func (r *Reconciler) unused(ctx context.Context, s *scope) error {
	users, err := r.Usage.OfProviderConfig(ctx, client.ObjectKeyFromObject(s.config))
	if err != nil {
		return err
	}
	return usage.Wait(users)
}

// transitionEvents announce a problem, its end, and a deletion that has to wait.
var transitionEvents = reconcile.EventTable{
	Rules: []reconcile.EventRule{
		{Conditions: checks, When: reconcile.BecomesFalse, Type: corev1.EventTypeWarning, Action: "Check"},
		{Conditions: checks, When: reconcile.Recovers, Action: "Check"},
		{Conditions: []string{infrav1.DeletableCondition}, When: reconcile.BecomesFalse, Type: corev1.EventTypeWarning, Action: "Delete"},
		{Conditions: []string{infrav1.DeletableCondition}, When: reconcile.Recovers, Action: "Delete"},
	},
}

var checks = []string{infrav1.ConfigurationValidCondition, infrav1.CredentialsFoundCondition}
