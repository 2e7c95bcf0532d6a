// Package captmachineset keeps the machines of CAPTMachineSets: as many as are
// wanted, equal to the template as far as a running machine can be, and nobody
// else's.
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
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinesets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinesets/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinesets/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachines,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch

// Reconciler keeps the machines of CAPTMachineSets.
type Reconciler struct {
	Client client.Client
	// APIReader reads past the cache. Nothing is made, deleted or adopted on the
	// word of the cache alone.
	APIReader client.Reader
	// WatchFilter restricts the controller to objects with the label's value.
	WatchFilter string
	Recorder    events.EventRecorder
	// Now is the clock.
	Now func() time.Time
}

// scope is what was read for one look at a set.
type scope struct {
	set      *infrav1.CAPTMachineSet
	cluster  *clusterv1.Cluster
	selector labels.Selector
	now      time.Time

	// claimed are the machines of the set, those on their way included. They may
	// be shared with the cache.
	claimed []*infrav1.CAPTMachine
	// looked is true once they are known.
	looked bool
	// fresh is true once the API server has confirmed the set.
	fresh bool
}

// SetupWithManager adds the controller and what it watches.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if err := r.index(ctx, mgr); err != nil {
		return err
	}
	err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.CAPTMachineSet{}).
		Watches(&infrav1.CAPTMachine{}, handler.EnqueueRequestsFromMapFunc(r.ofMachine)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster), builder.WithPredicates(appearsOrPauses())).
		WithOptions(options).
		Named("captmachineset").
		Complete(r.frame())
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	return nil
}

// frame is the table of contents of the controller.
func (r *Reconciler) frame() *reconcile.Frame[*infrav1.CAPTMachineSet, scope] {
	return &reconcile.Frame[*infrav1.CAPTMachineSet, scope]{
		Client:      r.Client,
		WatchFilter: r.WatchFilter,
		Finalizer:   infrav1.CAPTMachineSetFinalizer,
		Cluster:     r.clusterOf,
		Scope:       r.scope,
		Steps: []reconcile.Step[scope]{
			{Run: r.belong},
			{Condition: infrav1.ReplicasInSyncCondition, Run: r.replicas, ContinueIf: func(s *scope) bool { return s.looked }},
			{Condition: infrav1.MachinesReadyCondition, Run: r.machinesReady, RequeueAfter: r.nextAvailable},
		},
		Delete: []reconcile.Step[scope]{
			{Condition: infrav1.ReplicasInSyncCondition, Run: r.deleteMachines},
		},
	}
}

// clusterOf finds the Cluster by the name that the spec gives: labels and owner
// references may still be missing.
func (r *Reconciler) clusterOf(ctx context.Context, set *infrav1.CAPTMachineSet) (*clusterv1.Cluster, error) {
	named := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: set.Namespace, DeletionTimestamp: set.DeletionTimestamp,
		Labels: map[string]string{clusterv1.ClusterNameLabel: set.Spec.ClusterName},
	}}
	return reconcile.OwnerCluster(ctx, r.Client, named)
}

func (r *Reconciler) scope(_ context.Context, set *infrav1.CAPTMachineSet, cluster *clusterv1.Cluster) (*scope, error) {
	selector, err := metav1.LabelSelectorAsSelector(&set.Spec.Selector)
	if err != nil {
		return nil, fault.Stall(infrav1.SelectorMismatchReason, "spec.selector cannot be read: %w", err)
	}
	set.Status.Selector = selector.String()
	return &scope{set: set, cluster: cluster, selector: selector, now: r.Now()}, nil
}

// belong makes a set that no deployment controls follow its Cluster to another
// management cluster, and into deletion.
func (r *Reconciler) belong(_ context.Context, s *scope) error {
	if s.cluster == nil || metav1.GetControllerOf(s.set) != nil {
		return nil
	}
	ref := metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: clusterv1.ClusterKind, Name: s.cluster.Name, UID: s.cluster.UID,
	}
	for _, has := range s.set.OwnerReferences {
		if has.UID == ref.UID {
			return nil
		}
	}
	s.set.OwnerReferences = append(s.set.OwnerReferences, ref)
	return nil
}

// owner is the set as one who claims machines.
func (s *scope) owner() machines.Owner {
	return machines.Owner{Object: s.set, Selector: s.selector, ClusterName: s.set.Spec.ClusterName}
}

// counted is what counts of the set's machines.
func (s *scope) counted() []machines.Machine {
	all := make([]machines.Machine, 0, len(s.claimed))
	for _, m := range s.claimed {
		all = append(all, machines.Of(m))
	}
	return all
}

func (s *scope) minReady() time.Duration { return machines.Seconds(s.set.Spec.MinReadySeconds) }
