// Package workspacetemplate looks at WorkspaceTemplates: it shows what an
// inline module declares and what is wrong with it, and keeps a template for as
// long as workspaces need it.
package workspacetemplate

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/terraform/usage"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=get;list;watch

// Reconciler looks at WorkspaceTemplates.
type Reconciler struct {
	Client client.Client
	// Usage finds the workspaces that use a template.
	Usage usage.Finder
	// WatchFilter restricts the controller to objects with the label's value.
	WatchFilter string
	Recorder    events.EventRecorder
}

// scope is what was read for one look at a template.
type scope struct {
	template *infrav1.WorkspaceTemplate
}

// SetupWithManager adds the controller and what it watches. The manager's cache
// must be indexed by usage.Index.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.WorkspaceTemplate{}, builder.WithPredicates(asked())).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.released), builder.WithPredicates(letsGo())).
		WithOptions(options).
		Named("workspacetemplate").
		Complete(r.frame())
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	return nil
}

// frame is the table of contents of the controller.
func (r *Reconciler) frame() *reconcile.Frame[*infrav1.WorkspaceTemplate, scope] {
	return &reconcile.Frame[*infrav1.WorkspaceTemplate, scope]{
		Client:      r.Client,
		WatchFilter: r.WatchFilter,
		Finalizer:   infrav1.WorkspaceTemplateFinalizer,
		Cluster:     ofNoCluster,
		Scope: func(_ context.Context, template *infrav1.WorkspaceTemplate, _ *clusterv1.Cluster) (*scope, error) {
			return &scope{template: template}, nil
		},
		Steps: []reconcile.Step[scope]{
			{Condition: infrav1.ModuleValidCondition, Run: module, ReasonOf: moduleReason, Message: moduleMessage},
		},
		Delete: []reconcile.Step[scope]{
			{Condition: infrav1.DeletableCondition, Run: r.unused},
		},
		OnTransition: reconcile.Announce[*infrav1.WorkspaceTemplate, scope](r.Recorder, transitionEvents),
	}
}

// ofNoCluster says that a template does not pause with a Cluster: many share it.
func ofNoCluster(context.Context, *infrav1.WorkspaceTemplate) (*clusterv1.Cluster, error) {
	return nil, nil
}
