// Package workspaceproviderconfig looks at WorkspaceProviderConfigs: it says
// whether what they name exists and whether their configuration parses, and
// keeps a config for as long as workspaces need it.
package workspaceproviderconfig

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/terraform/usage"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspaceproviderconfigs,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspaceproviderconfigs/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspaceproviderconfigs/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates;workspacetemplateapplies,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch

// Reconciler looks at WorkspaceProviderConfigs.
type Reconciler struct {
	Client client.Client
	// Reader reads past the cache: people's Secrets.
	Reader client.Reader
	// Metadata watches every Secret by name.
	Metadata cache.Cache
	// Usage finds the workspaces that use a config.
	Usage usage.Finder
	// WatchFilter restricts the controller to objects with the label's value.
	WatchFilter string
	Recorder    events.EventRecorder
}

// SetupWithManager adds the controller and what it watches. The manager's cache
// must be indexed by usage.Index.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if err := index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.WorkspaceProviderConfig{}, builder.WithPredicates(asked())).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.waitingBeside), builder.WithPredicates(workspaceLetsGo())).
		Watches(&infrav1.WorkspaceTemplate{}, handler.EnqueueRequestsFromMapFunc(r.waitingAnywhere), builder.WithPredicates(templateLetsGo())).
		WatchesRawSource(source.Kind(r.Metadata, client.Object(secret), handler.EnqueueRequestsFromMapFunc(r.naming))).
		WithOptions(options).
		Named("workspaceproviderconfig").
		Complete(r.frame())
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	return nil
}

// frame is the table of contents of the controller.
func (r *Reconciler) frame() *reconcile.Frame[*infrav1.WorkspaceProviderConfig, scope] {
	return &reconcile.Frame[*infrav1.WorkspaceProviderConfig, scope]{
		Client:      r.Client,
		WatchFilter: r.WatchFilter,
		Finalizer:   infrav1.WorkspaceProviderConfigFinalizer,
		Cluster:     ofNoCluster,
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

// ofNoCluster says that a config does not pause with a Cluster: many share it.
func ofNoCluster(context.Context, *infrav1.WorkspaceProviderConfig) (*clusterv1.Cluster, error) {
	return nil, nil
}
