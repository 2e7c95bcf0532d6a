// Package workspacetemplateapply reconciles WorkspaceTemplateApplies, the
// workspaces. It decides when a run is due, starts it through the engine and
// reports its result. It never runs Terraform itself.
package workspacetemplateapply

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
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
	"github.com/appthrust/capt/internal/cluster/grant"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/cleanup"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/lending"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/sources"
	"github.com/appthrust/capt/internal/kubernetes/flux"
	"github.com/appthrust/capt/internal/kubernetes/object"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/seal"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/queue"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies/host,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspaceplans;workspaceruns,verbs=create
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates;workspaceproviderconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacepolicies;clusterworkspacepolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=source.toolkit.fluxcd.io,resources=gitrepositories;ocirepositories;buckets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;create;update;delete

// Reconciler reconciles WorkspaceTemplateApplies.
type Reconciler struct {
	Client client.Client
	// Reader reads the Secrets and ConfigMaps of users. The cache of Client does
	// not contain them.
	Reader client.Reader
	// Metadata watches the metadata of all Secrets and ConfigMaps.
	Metadata cache.Cache
	// Limits are what workspaces may use.
	Limits template.Limits
	// NoClusterPolicies leaves ClusterWorkspacePolicies alone: the manager may not read them.
	NoClusterPolicies bool
	// Grants decides about references to objects of other namespaces.
	Grants *grant.Checker
	// Artifacts downloads the artifacts of Flux sources.
	Artifacts *flux.Fetcher
	// Runners execute the runs of each executor.
	Runners map[infrav1.Executor]terraform.Runner
	// Default is the executor of workspaces whose provider config has none.
	Default infrav1.Executor
	// SealKey returns the key that authenticates the Secrets of runs.
	SealKey func(ctx context.Context) (*seal.Key, error)
	// StartTimeout is how long the pod of a run may take to start, and MaxTimeout is the
	// longest timeout of a run. Both have a default or no limit if they are zero.
	StartTimeout, MaxTimeout time.Duration
	// MaxRuns are the limits of concurrent runs.
	MaxRuns queue.Limits
	// RunExits receives an event for each workspace whose run ended without a
	// watch event. See RunExit.
	RunExits <-chan event.GenericEvent
	// WatchFilter restricts the controller to objects with this value of the label
	// cluster.x-k8s.io/watch-filter.
	WatchFilter string
	Recorder    events.EventRecorder
	// Tracer receives the traces of runs. It may be nil.
	Tracer trace.Tracer
	// Now returns the current time.
	Now func() time.Time

	queue   *queue.Queue
	tracker *sources.Tracker
	// unused, counted and active are those of numbers and recorder.
	unused, counted, active sync.Map
	// granted receives an event for each workspace that got a slot in the queue.
	granted chan event.GenericEvent

	store     *runs.Store
	numbers   *runs.Numbers
	execution *execution.Reconciler
	recorder  *history.Recorder
	resolver  *sources.Resolver
	cleaner   *cleanup.Cleaner
	publisher *history.Publisher
	lender    *lending.Reconciler
}

// build creates the parts of the controller.
func (r *Reconciler) build() *Reconciler {
	r.store = &runs.Store{Client: r.Client, Reader: r.Reader, SealKey: r.SealKey}
	r.numbers = &runs.Numbers{Store: r.store, Runners: r.Runners, Unused: &r.unused, Active: &r.active}
	r.execution = &execution.Reconciler{
		Numbers: r.numbers, Queue: r.queue, Artifacts: r.Artifacts, Default: r.Default, StartTimeout: r.StartTimeout, Now: r.Now,
	}
	r.recorder = &history.Recorder{Numbers: r.numbers, Queue: r.queue, Counted: &r.counted, Recorder: r.Recorder, Tracer: r.Tracer}
	r.resolver = &sources.Resolver{
		Client: r.Client, Reader: r.Reader, Metadata: r.Metadata, Grants: r.Grants, Limits: r.Limits,
		NoClusterPolicies: r.NoClusterPolicies, Tracker: r.tracker,
	}
	r.cleaner = &cleanup.Cleaner{Numbers: r.numbers, Tracker: r.tracker, Counted: &r.counted}
	r.publisher = &history.Publisher{Store: r.store}
	r.lender = &lending.Reconciler{
		Store: r.store, Resolver: r.resolver, Publisher: r.publisher, Cleaner: r.cleaner, Tracker: r.tracker, WatchFilter: r.WatchFilter, Recorder: r.Recorder, Now: r.Now,
	}
	return r
}

// grantedCapacity is the capacity of Reconciler.granted. The queue must not block
// when it grants a slot during a reconcile.
const grantedCapacity = 1 << 12

// SetupWithManager adds the controller and its watches to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	r.tracker = sources.NewTracker()
	r.tracker.Metadata = r.Metadata
	r.granted = make(chan event.GenericEvent, grantedCapacity)
	r.queue = queue.New(r.MaxRuns, r.Now, func(key queue.Key) { r.granted <- workspaceEvent(key.Namespace, key.Name) })
	history.RegisterMetrics(r.queue)
	r.build()
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Secret{}, runs.WorkspaceIndex, runs.WorkspaceOf); err != nil {
		return fmt.Errorf("indexing Secrets by workspace: %w", err)
	}
	for _, kind := range []client.Object{&infrav1.WorkspaceOperation{}, &infrav1.WorkspaceApproval{}} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, kind, runs.RequestIndex, runs.RequestedOf); err != nil {
			return fmt.Errorf("indexing requests by workspace: %w", err)
		}
	}
	secret, configMap := object.Metadata(sources.SecretKind), object.Metadata(sources.ConfigMapKind)
	setup := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.WorkspaceTemplateApply{}).
		Owns(&corev1.Secret{}).
		Owns(&batchv1.Job{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(workspaceOfSecret), builder.WithPredicates(predicate.NewPredicateFuncs(changesRescued))).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.tracker.MapTo("WorkspaceTemplateApply"))).
		Watches(&infrav1.WorkspaceOperation{}, handler.EnqueueRequestsFromMapFunc(r.requestedOf), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&infrav1.WorkspaceApproval{}, handler.EnqueueRequestsFromMapFunc(r.requestedOf), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&infrav1.WorkspaceTemplate{}, handler.EnqueueRequestsFromMapFunc(r.tracker.MapTo("WorkspaceTemplate")), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&infrav1.CAPTReferenceGrant{}, handler.EnqueueRequestsFromMapFunc(r.tracker.MapGrants), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&infrav1.WorkspaceProviderConfig{}, handler.EnqueueRequestsFromMapFunc(r.tracker.MapTo("WorkspaceProviderConfig")), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&infrav1.WorkspacePolicy{}, handler.EnqueueRequestsFromMapFunc(r.resolver.WorkspacesOfPolicy), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.resolver.WorkspacesOfCluster), builder.WithPredicates(predicates.ClusterPausedTransitions(mgr.GetScheme(), ctrl.LoggerFrom(ctx)))).
		WatchesRawSource(source.Kind(r.Metadata, client.Object(secret), handler.EnqueueRequestsFromMapFunc(r.tracker.MapTo("Secret")))).
		WatchesRawSource(source.Kind(r.Metadata, client.Object(configMap), handler.EnqueueRequestsFromMapFunc(r.tracker.MapTo("ConfigMap")))).
		WatchesRawSource(source.Channel(r.granted, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(r.RunExits, &handler.EnqueueRequestForObject{})).
		WithOptions(options).
		Named("workspacetemplateapply")
	if !r.NoClusterPolicies {
		setup.Watches(&infrav1.ClusterWorkspacePolicy{}, handler.EnqueueRequestsFromMapFunc(r.resolver.WorkspacesOfPolicy), builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	}
	var err error
	r.tracker.Controller, err = setup.Build(r.router())
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	return nil
}

// router selects the steps of a workspace: those of a borrower if its provider config was
// lent to it. A borrower has no runs: the workspace that its lender creates for it has them, in
// the namespace of the provider config, whose Secrets the users of the borrower cannot read.
type router struct {
	r        *Reconciler
	own      *reconcile.Frame[*infrav1.WorkspaceTemplateApply, execution.Scope]
	borrower *reconcile.Frame[*infrav1.WorkspaceTemplateApply, lending.Borrower]
}

func (r *Reconciler) router() *router {
	return &router{r: r, own: r.frame(), borrower: r.lender.Frame()}
}

// Reconcile reconciles a workspace.
func (f *router) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	apply := &infrav1.WorkspaceTemplateApply{}
	if err := f.r.Client.Get(ctx, req.NamespacedName, apply); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("getting object: %w", err)
	}
	isBorrower, err := f.r.lender.IsBorrower(ctx, apply)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case isBorrower:
		return f.borrower.Reconcile(ctx, req)
	default:
		return f.own.Reconcile(ctx, req)
	}
}

// frame returns the steps of the controller.
func (r *Reconciler) frame() *reconcile.Frame[*infrav1.WorkspaceTemplateApply, execution.Scope] {
	first := []reconcile.Step[execution.Scope]{
		{Run: r.restored},
		{Run: r.history},
		{Run: r.requests, RequeueAfter: untilExpired},
		{Run: r.requirements},
		{Run: r.shell},
		{Run: r.approval},
		{Condition: infrav1.StateSavedCondition, Run: stateSaved, Skip: hasSavedAll, Informational: true},
		{Run: r.pruneTransfers, RequeueAfter: func(s *execution.Scope) time.Duration { return s.TransfersExpire }},
	}
	return &reconcile.Frame[*infrav1.WorkspaceTemplateApply, execution.Scope]{
		Client:      r.Client,
		WatchFilter: r.WatchFilter,
		Finalizer:   infrav1.WorkspaceTemplateApplyFinalizer,
		Scope:       r.scope,
		Steps: slices.Concat(first, []reconcile.Step[execution.Scope]{
			{Run: r.prune, RequeueAfter: untilPruned},
			{Condition: infrav1.DependenciesReadyCondition, Run: r.attendingRun(r.dependencies), Message: func(s *execution.Scope) string { return sources.DependenciesMessage(s.Resolved) }},
			{Condition: infrav1.InputsValidCondition, Run: r.attendingRun(r.inputs)},
			// Before the run that repairs the drift, which may wait or fail.
			{Condition: infrav1.NoDriftCondition, Run: r.drift, Skip: neverApplied, Message: noDriftMessage, RequeueAfter: untilDriftCheck, Informational: true},
			{Condition: infrav1.AppliedCondition, Run: r.run, Message: func(s *execution.Scope) string { return history.AppliedMessage(s.Apply) }},
			{Condition: infrav1.OutputsWrittenCondition, Run: r.outputs, Message: func(s *execution.Scope) string { return history.OutputsMessage(s.Apply) }},
		}),
		Delete: slices.Concat(first, []reconcile.Step[execution.Scope]{
			{Run: r.pruneDeleted},
			{Condition: infrav1.DestroyedCondition, Run: r.destroy, Message: destroyedMessage},
			{Run: r.cleanUp},
		}),
		Paused:       r.whilePaused,
		Gone:         r.releaseGone,
		Ended:        r.releaseSlot,
		OnTransition: reconcile.Announce[*infrav1.WorkspaceTemplateApply, execution.Scope](r.Recorder, history.TransitionEvents),
	}
}

// The steps of the other parts.
func (r *Reconciler) approval(_ context.Context, s *execution.Scope) error {
	history.RecordApproval(r.Recorder, s.Workspace)
	return nil
}

func (r *Reconciler) shell(_ context.Context, s *execution.Scope) error {
	history.RecordShell(r.Recorder, s.Workspace)
	return nil
}

func (r *Reconciler) history(ctx context.Context, s *execution.Scope) error {
	return r.recorder.History(ctx, s.Status)
}

func (r *Reconciler) dependencies(ctx context.Context, s *execution.Scope) error {
	return r.resolver.Dependencies(ctx, s.Resolved)
}

func (r *Reconciler) inputs(_ context.Context, s *execution.Scope) error {
	return r.resolver.Inputs(s.Resolved)
}

func (r *Reconciler) outputs(ctx context.Context, s *execution.Scope) error {
	return r.publisher.Outputs(ctx, s.Resolved)
}

func (r *Reconciler) cleanUp(ctx context.Context, s *execution.Scope) error {
	return r.cleaner.CleanUp(ctx, s.Workspace)
}

// releaseGone drops what is in memory about a workspace that does not exist. Otherwise it
// would keep a slot of the queue forever.
func (r *Reconciler) releaseGone(key client.ObjectKey) {
	r.tracker.Set(key, nil)
	r.queue.Release(queue.Key{Namespace: key.Namespace, Name: key.Name})
}

// workspaceEvent returns an event that triggers the reconcile of a workspace.
func workspaceEvent(namespace, name string) event.GenericEvent {
	return event.GenericEvent{Object: &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}}
}

// changesRescued reports whether an object is a rescued state, of which the status tells, or a
// snapshot that a user has deleted, which its finalizer keeps until the workspace is reconciled.
func changesRescued(obj client.Object) bool {
	component := obj.GetLabels()[infrav1.ComponentLabel]
	return component == record.ComponentRescue || component == record.ComponentSnapshot && !obj.GetDeletionTimestamp().IsZero()
}

// workspaceOfSecret returns the workspace that a Secret belongs to. That with a name that is too
// long for a label is not found.
func workspaceOfSecret(_ context.Context, obj client.Object) []ctrl.Request {
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: obj.GetLabels()[infrav1.WorkspaceLabel]}}}
}

// RunExit returns the event for Reconciler.RunExits that triggers the reconcile of
// the workspace of a run.
func RunExit(run terraform.Run) event.GenericEvent {
	return workspaceEvent(run.Namespace, run.Workspace)
}

// requirements keeps what the template of the existing resources requires in the status, and
// sets the policy of the next run. A user who may change the reference to the template, for
// example in the owner of the workspace, must not thereby switch approval or protection off:
// the requirements follow the template while it is used, and those of another one replace them
// only with an approved plan.
func (*Reconciler) requirements(_ context.Context, s *execution.Scope) error {
	if state := s.Apply.Status.State; state != nil {
		state.Requirements = s.RequirementsOf(state)
	}
	s.Policy = template.PolicyOf(template.Sources{Apply: s.Apply, Template: s.Template})
	return nil
}

func (r *Reconciler) scope(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, _ *clusterv1.Cluster) (*execution.Scope, error) {
	s := execution.NewScope(&runs.Workspace{Apply: apply, Now: r.Now()})
	s.DefaultAccount, s.MaxTimeout = r.Limits.DefaultServiceAccount, r.MaxTimeout
	if err := r.store.ReadRuns(ctx, s.Workspace); err != nil {
		return nil, err
	}
	if err := r.store.ReadRequests(ctx, s.Workspace); err != nil {
		return nil, err
	}
	var err error
	if s.Left, err = r.store.Secrets(ctx, s.Workspace, record.ComponentRescue); err != nil {
		return nil, err
	}
	if !apply.DeletionTimestamp.IsZero() {
		if s.Terminating, err = r.store.IsTerminating(ctx, s.Workspace); err != nil {
			return nil, err
		}
	}
	// The step dependencies waits for a template that does not exist.
	known := template.Sources{Apply: apply, Template: &infrav1.WorkspaceTemplate{}}
	if err := r.Client.Get(ctx, apply.Spec.TemplateRef.Key(apply.Namespace), known.Template); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the template: %w", err)
	}
	s.Template, s.Policy = known.Template, template.PolicyOf(known)
	if s.Policies, err = r.resolver.PoliciesOf(ctx, apply, known.Template); err != nil {
		return nil, err
	}
	history.ExpectViolations(s.Policies)
	return s, nil
}

func (r *Reconciler) pruneDeleted(ctx context.Context, s *execution.Scope) error {
	if s.Terminating {
		// Kubernetes deletes the runs, and a copy of a moved state cannot be created.
		return nil
	}
	return r.cleaner.PruneDeleted(ctx, s.Workspace)
}

// prune deletes what the workspace does not need any more.
func (r *Reconciler) prune(ctx context.Context, s *execution.Scope) (err error) {
	s.Unpruned, err = r.cleaner.Prune(ctx, s.Workspace)
	return err
}

func untilPruned(s *execution.Scope) time.Duration {
	if s.Unpruned {
		return cleanup.PruneInterval
	}
	return 0
}

func (r *Reconciler) pruneTransfers(ctx context.Context, s *execution.Scope) (err error) {
	s.TransfersExpire, err = r.cleaner.PruneTransfers(ctx, s.Workspace)
	return err
}

// whilePaused deletes the transferred states that captctl left: they are confidential.
func (r *Reconciler) whilePaused(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (time.Duration, error) {
	return r.cleaner.PruneTransfers(ctx, &runs.Workspace{Apply: apply, Now: r.Now()})
}
