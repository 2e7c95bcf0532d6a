// Package workspacetemplate reconciles WorkspaceTemplates. It validates an inline
// module, reports its declarations in the status, gives a changed module to the workspaces in
// stages, and blocks the deletion of a template while workspaces use it.
package workspacetemplate

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/template"
	"github.com/appthrust/capt/internal/terraform/usage"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=get;list;watch

// Reconciler reconciles WorkspaceTemplates.
type Reconciler struct {
	Client client.Client
	// Usage finds the workspaces that use a template.
	Usage usage.Finder
	// WatchFilter restricts the controller to objects with this value of the label
	// cluster.x-k8s.io/watch-filter.
	WatchFilter string
	Recorder    events.EventRecorder
	Now         func() time.Time
}

// scope is the data of one reconcile.
type scope struct {
	template *infrav1.WorkspaceTemplate
}

// SetupWithManager adds the controller and its watches to the manager. The
// manager's cache must be indexed by usage.Index.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.WorkspaceTemplate{}, builder.WithPredicates(reconcile.SpecOrMetadataChanged())).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.templateIf(isDeleted)), builder.WithPredicates(reconcile.StopsUsing(usage.StopsUsing))).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.templateIf(hasStages)), builder.WithPredicates(changesGate)).
		WithOptions(options).
		Named("workspacetemplate").
		Complete(r.frame())
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	return nil
}

// templateIf maps a workspace to its template, if the template is one of those selected.
func (r *Reconciler) templateIf(selected func(*infrav1.WorkspaceTemplate) bool) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []ctrl.Request {
		apply, ok := obj.(*infrav1.WorkspaceTemplateApply)
		if !ok {
			return nil
		}
		key := apply.Spec.TemplateRef.Key(apply.Namespace)
		var template infrav1.WorkspaceTemplate
		if err := r.Client.Get(ctx, key, &template); err != nil || !selected(&template) {
			return nil
		}
		return []ctrl.Request{{NamespacedName: key}}
	}
}

// frame returns the steps of the controller.
func (r *Reconciler) frame() *reconcile.Frame[*infrav1.WorkspaceTemplate, scope] {
	return &reconcile.Frame[*infrav1.WorkspaceTemplate, scope]{
		Client:      r.Client,
		WatchFilter: r.WatchFilter,
		Finalizer:   infrav1.WorkspaceTemplateFinalizer,
		Cluster:     reconcile.NoCluster[*infrav1.WorkspaceTemplate],
		Scope: func(_ context.Context, template *infrav1.WorkspaceTemplate, _ *clusterv1.Cluster) (*scope, error) {
			return &scope{template: template}, nil
		},
		Steps: []reconcile.Step[scope]{
			{Condition: infrav1.ModuleValidCondition, Run: module, ReasonOf: moduleReason, Message: moduleMessage},
			{Condition: infrav1.RolledOutCondition, Run: r.rollout, Skip: hasNoStages, Informational: true},
		},
		Delete: []reconcile.Step[scope]{
			{Condition: infrav1.DeletableCondition, Run: r.unused},
		},
		OnTransition: reconcile.Announce[*infrav1.WorkspaceTemplate, scope](r.Recorder, transitionEvents),
	}
}

// module sets the declarations of an inline module in the template's status. Another
// module is inspected by the run that fetches it.
func module(_ context.Context, s *scope) error {
	err := template.SetDeclarations(s.template)
	if p, ok := errors.AsType[*template.Problem](err); ok {
		return fault.Stall(p.Reason, "%s", p.Message)
	}
	return err
}

func moduleReason(s *scope) string { return template.ModuleValidReason(s.template) }

func moduleMessage(s *scope) string {
	if moduleReason(s) == infrav1.ModuleNotInspectedReason {
		return "A module that is not inline is inspected by the run that fetches it"
	}
	return ""
}

// transitionEvents announce an invalid module, the end of that problem, and a
// deletion that has to wait.
var transitionEvents = reconcile.EventTable{
	Rules: []reconcile.EventRule{
		{Conditions: []string{infrav1.ModuleValidCondition}, When: reconcile.BecomesFalse, Type: corev1.EventTypeWarning, Action: "Inspect"},
		{Conditions: []string{infrav1.ModuleValidCondition}, When: reconcile.Recovers, Action: "Inspect"},
		{Conditions: []string{infrav1.RolledOutCondition}, When: reconcile.BecomesFalse, Type: corev1.EventTypeNormal, Action: "RollOut"},
		{Conditions: []string{infrav1.RolledOutCondition}, When: reconcile.Recovers, Action: "RollOut"},
		{Conditions: []string{infrav1.DeletableCondition}, When: reconcile.BecomesFalse, Type: corev1.EventTypeWarning, Action: "Delete"},
	},
}
