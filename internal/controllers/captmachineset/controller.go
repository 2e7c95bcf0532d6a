// Package captmachineset reconciles CAPTMachineSets. It creates and deletes the
// machines of a set until their number is the desired one, and applies changes of
// the template that a running machine can follow.
package captmachineset

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/machines"
	"github.com/appthrust/capt/internal/cluster/ownership"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinesets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinesets/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinesets/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachines,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch

// Clusters has the connections to workload clusters.
type Clusters interface {
	// GetUncachedClient returns a client that reads from the API server of a cluster. It
	// does not block.
	GetUncachedClient(ctx context.Context, cluster client.ObjectKey) (client.Client, error)
}

// Reconciler reconciles CAPTMachineSets.
type Reconciler struct {
	Client client.Client
	// APIReader reads from the API server instead of the cache. Machines are
	// created, deleted and adopted only after it confirmed what the cache says.
	APIReader client.Reader
	// Clusters connects to workload clusters. A machine is replaced only if its node is
	// seen not to work.
	Clusters Clusters
	// WatchFilter restricts the controller to objects with the label's value.
	WatchFilter string
	Recorder    events.EventRecorder
	// Now returns the current time.
	Now func() time.Time
}

// scope is what one reconcile of a set has read.
type scope struct {
	set      *infrav1.CAPTMachineSet
	cluster  *clusterv1.Cluster
	selector labels.Selector
	now      time.Time

	// machines are the machines of the set, including those that are being
	// deleted. They may be shared with the cache.
	machines []*infrav1.CAPTMachine
	// machinesRead reports whether machines has been set.
	machinesRead bool
	// nextHealthCheck is when a machine with a problem becomes unhealthy, or zero.
	nextHealthCheck time.Duration
	// claimer finds the machines of the set.
	claimer *ownership.Claimer[*infrav1.CAPTMachine]
}

// SetupWithManager adds the controller and its watches to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if err := ownership.Index(ctx, mgr.GetFieldIndexer(), &infrav1.CAPTMachine{}, controllerIndex); err != nil {
		return err
	}
	watches := r.watches()
	err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.CAPTMachineSet{}).
		Watches(&infrav1.CAPTMachine{}, handler.EnqueueRequestsFromMapFunc(watches.RequestsForDependent)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(watches.RequestsForCluster), builder.WithPredicates(ownership.ClusterCreatedOrPaused())).
		WithOptions(options).
		Named("captmachineset").
		Complete(r.frame())
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	return nil
}

// frame lists the steps of the controller.
func (r *Reconciler) frame() *reconcile.Frame[*infrav1.CAPTMachineSet, scope] {
	return &reconcile.Frame[*infrav1.CAPTMachineSet, scope]{
		Client:      r.Client,
		WatchFilter: r.WatchFilter,
		Finalizer:   infrav1.CAPTMachineSetFinalizer,
		Cluster: func(ctx context.Context, set *infrav1.CAPTMachineSet) (*clusterv1.Cluster, error) {
			return ownership.ClusterOf(ctx, r.Client, set, set.Spec.ClusterName)
		},
		Scope: r.scope,
		Steps: []reconcile.Step[scope]{
			{Run: r.setOwner},
			{Condition: infrav1.ReplicasInSyncCondition, Run: r.replicas, ContinueIf: func(s *scope) bool { return s.machinesRead }},
			{Condition: infrav1.MachinesHealthyCondition, Run: r.healthy, Informational: true, RequeueAfter: func(s *scope) time.Duration { return s.nextHealthCheck }},
			{Condition: infrav1.MachinesReadyCondition, Run: r.machinesReady, RequeueAfter: r.nextAvailable},
		},
		Delete: []reconcile.Step[scope]{
			{Condition: infrav1.ReplicasInSyncCondition, Run: r.deleteMachines},
		},
	}
}

func (r *Reconciler) scope(_ context.Context, set *infrav1.CAPTMachineSet, cluster *clusterv1.Cluster) (*scope, error) {
	selector, err := metav1.LabelSelectorAsSelector(&set.Spec.Selector)
	if err != nil {
		return nil, fault.Stall(infrav1.SelectorMismatchReason, "spec.selector is invalid: %w", err)
	}
	set.Status.Selector = selector.String()
	return &scope{set: set, cluster: cluster, selector: selector, now: r.Now(), claimer: &ownership.Claimer[*infrav1.CAPTMachine]{
		Owner:  ownership.Owner{Object: set, Selector: selector, ClusterName: set.Spec.ClusterName},
		Client: r.Client, APIReader: r.APIReader, Reference: machines.SetReference(set), Field: controllerIndex,
		NewList:   func() client.ObjectList { return &infrav1.CAPTMachineList{} },
		OnAdopt:   func(m *infrav1.CAPTMachine) { machineAdopted(m.Name).Record(r.Recorder, set, m) },
		OnRelease: func(m *infrav1.CAPTMachine) { machineReleased(m.Name).Record(r.Recorder, set, m) },
	}}, nil
}

// readLive reads the set's machines from the API server. It fails if the set is no longer
// the one that was read.
func (s *scope) readLive(ctx context.Context) (err error) {
	if err := s.claimer.Confirm(ctx); err != nil {
		return err
	}
	s.machines, err = s.claimer.Live(ctx, client.MatchingLabelsSelector{Selector: s.selector})
	return err
}

// setOwner makes the Cluster an owner of a set that no deployment controls. The
// set then moves to another management cluster, and is deleted, with its Cluster.
func (r *Reconciler) setOwner(_ context.Context, s *scope) error {
	if s.cluster == nil || metav1.GetControllerOf(s.set) != nil {
		return nil
	}
	ref := metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: clusterv1.ClusterKind, Name: s.cluster.Name, UID: s.cluster.UID,
	}
	for _, existing := range s.set.OwnerReferences {
		if existing.UID == ref.UID {
			return nil
		}
	}
	s.set.OwnerReferences = append(s.set.OwnerReferences, ref)
	return nil
}

// states returns the state of the set's machines.
func (s *scope) states() []machines.Machine {
	all := make([]machines.Machine, 0, len(s.machines))
	for _, m := range s.machines {
		all = append(all, machines.MachineOf(m))
	}
	return all
}

func (s *scope) minReady() time.Duration { return machines.Seconds(s.set.Spec.MinReadySeconds) }
