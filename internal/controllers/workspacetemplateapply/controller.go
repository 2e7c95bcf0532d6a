// Package workspacetemplateapply applies WorkspaceTemplates: it decides when a
// run is due, asks the engine for it and shows what came of it. It never runs
// Terraform itself.
package workspacetemplateapply

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/queue"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates;workspaceproviderconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch

// Reconciler applies WorkspaceTemplates.
type Reconciler struct {
	Client client.Client
	// Reader reads past the cache: people's Secrets and ConfigMaps.
	Reader client.Reader
	// Metadata watches every Secret and ConfigMap by name.
	Metadata cache.Cache
	// Runners carry out runs, by executor; Default is used unless a provider
	// config says otherwise.
	Runners map[infrav1.Executor]terraform.Runner
	Default infrav1.Executor
	// MaxRuns is how many runs go on at once.
	MaxRuns int
	// Wake brings workspaces back whose run ended without a watch noticing.
	Wake <-chan event.GenericEvent
	// WatchFilter restricts the controller to objects with the label's value.
	WatchFilter string
	Recorder    events.EventRecorder
	// Now is the clock.
	Now func() time.Time

	queue   *queue.Queue
	tracker *tracker
	granted chan event.GenericEvent
}

// SetupWithManager adds the controller and what it watches.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	r.tracker = newTracker()
	// Grants come while a workspace is being reconciled; nobody may wait.
	r.granted = make(chan event.GenericEvent, 1<<16)
	r.queue = queue.New(r.MaxRuns, r.Now, func(key queue.Key) { r.granted <- wakeUp(key.Namespace, key.Name) })
	registerMetrics(r.queue)
	if err := r.index(ctx, mgr); err != nil {
		return err
	}
	secret, configMap := metadata("Secret"), metadata("ConfigMap")
	err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.WorkspaceTemplateApply{}).
		Owns(&corev1.Secret{}).
		Owns(&batchv1.Job{}).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.tracker.mapTo("WorkspaceTemplateApply"))).
		Watches(&infrav1.WorkspaceTemplate{}, handler.EnqueueRequestsFromMapFunc(r.tracker.mapTo("WorkspaceTemplate")), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&infrav1.WorkspaceProviderConfig{}, handler.EnqueueRequestsFromMapFunc(r.tracker.mapTo("WorkspaceProviderConfig")), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster), builder.WithPredicates(predicates.ClusterPausedTransitions(mgr.GetScheme(), ctrl.LoggerFrom(ctx)))).
		WatchesRawSource(source.Kind(r.Metadata, client.Object(secret), handler.EnqueueRequestsFromMapFunc(r.tracker.mapTo("Secret")))).
		WatchesRawSource(source.Kind(r.Metadata, client.Object(configMap), handler.EnqueueRequestsFromMapFunc(r.tracker.mapTo("ConfigMap")))).
		WatchesRawSource(source.Channel(r.granted, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(r.Wake, &handler.EnqueueRequestForObject{})).
		WithOptions(options).
		Named("workspacetemplateapply").
		Complete(r.frame())
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	return nil
}

// frame is the table of contents of the controller.
func (r *Reconciler) frame() *reconcile.Frame[*infrav1.WorkspaceTemplateApply, scope] {
	return &reconcile.Frame[*infrav1.WorkspaceTemplateApply, scope]{
		Client:      r.Client,
		WatchFilter: r.WatchFilter,
		Finalizer:   infrav1.WorkspaceTemplateApplyFinalizer,
		Scope:       r.scope,
		Steps: []reconcile.Step[scope]{
			{Run: r.history},
			{Run: r.prune},
			{Condition: infrav1.DependenciesReadyCondition, Run: r.meanwhile(r.dependencies)},
			{Condition: infrav1.InputsValidCondition, Run: r.meanwhile(r.inputs)},
			{Condition: infrav1.AppliedCondition, Run: r.run, Message: appliedMessage},
			{Condition: infrav1.OutputsWrittenCondition, Run: r.outputs, Message: outputsMessage},
			{Condition: infrav1.NoDriftCondition, Run: r.drift, Message: driftMessage, RequeueAfter: r.nextDrift, Informational: true},
		},
		Delete: []reconcile.Step[scope]{
			{Run: r.history},
			{Condition: infrav1.DestroyedCondition, Run: r.destroy, Message: destroyedMessage},
			{Run: r.cleanUp},
		},
		OnTransition: r.announce,
	}
}

func metadata(kind string) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return obj
}

// wakeUp is an event that brings a workspace back.
func wakeUp(namespace, name string) event.GenericEvent {
	return event.GenericEvent{Object: &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}}
}
