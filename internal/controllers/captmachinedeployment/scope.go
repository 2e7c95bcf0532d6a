package captmachinedeployment

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/machines"
	"github.com/appthrust/capt/internal/cluster/ownership"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// scope is what one reconcile of a deployment has read and decided.
type scope struct {
	deployment *infrav1.CAPTMachineDeployment
	// cluster is nil only for a deployment that is being deleted.
	cluster  *clusterv1.Cluster
	selector labels.Selector
	limits   machines.Limits
	now      time.Time

	// previous, previousReason and previousRevision are what the status contained.
	previous         machines.Totals
	previousReason   string
	previousRevision int64

	// sets are the sets that the deployment controls. They may be shared with the
	// cache.
	sets []*infrav1.CAPTMachineSet
	// claimer finds the sets.
	claimer *ownership.Claimer[*infrav1.CAPTMachineSet]
	// machines are the machines by the UID of their set.
	machines map[types.UID][]machines.Machine

	// versions decides the Kubernetes version of the machines.
	versions machines.Versions

	// blocked is the reason why nothing can be rolled out, or nil.
	blocked error
	// rolledBack reports whether this reconcile replaced the template with an
	// earlier one.
	rolledBack bool
	// waitingFor describes what has to happen before the rollout continues.
	waitingFor string

	state         machines.State
	untilDeadline time.Duration
}

func (r *Reconciler) scope(_ context.Context, d *infrav1.CAPTMachineDeployment, cluster *clusterv1.Cluster) (*scope, error) {
	selector, err := metav1.LabelSelectorAsSelector(&d.Spec.Selector)
	if err != nil {
		return nil, fault.Stall(infrav1.SelectorMismatchReason, "spec.selector is invalid: %w", err)
	}
	if selector.Empty() {
		return nil, fault.Stall(infrav1.SelectorMismatchReason, "%s", machines.SelectorProblem(selector, nil))
	}
	limits, err := machines.LimitsOf(d.Spec.Strategy, machines.Replicas(d.Spec.Replicas))
	if err != nil {
		return nil, fault.Stall(infrav1.InvalidStrategyReason, "spec.strategy.rollingUpdate: %w", err)
	}
	d.Status.Selector = selector.String()
	s := &scope{
		deployment: d, cluster: cluster, selector: selector, limits: limits, now: r.Now(),
		previous: machines.Totals{
			Replicas: ptr.Deref(d.Status.Replicas, 0), Updated: ptr.Deref(d.Status.UpdatedReplicas, 0),
			Ready: ptr.Deref(d.Status.ReadyReplicas, 0), Available: ptr.Deref(d.Status.AvailableReplicas, 0),
		},
		previousRevision: d.Status.Revision,
		claimer: &ownership.Claimer[*infrav1.CAPTMachineSet]{
			Owner:  ownership.Owner{Object: d, Selector: selector, ClusterName: d.Spec.ClusterName},
			Client: r.Client, APIReader: r.APIReader, Reference: machines.DeploymentReference(d), Field: setIndex,
			NewList:   func() client.ObjectList { return &infrav1.CAPTMachineSetList{} },
			OnAdopt:   func(set *infrav1.CAPTMachineSet) { setAdopted(set.Name).Record(r.Recorder, d, set) },
			OnRelease: func(set *infrav1.CAPTMachineSet) { setReleased(set.Name).Record(r.Recorder, d, set) },
		},
	}
	if c := meta.FindStatusCondition(d.Status.Conditions, infrav1.ProgressingCondition); c != nil {
		s.previousReason = c.Reason
	}
	return s, nil
}

func (s *scope) replicas() int32 { return machines.Replicas(s.deployment.Spec.Replicas) }

func (s *scope) paused() bool { return ptr.Deref(s.deployment.Spec.Paused, false) }

// scaleOnly reports whether the deployment scales but does not roll out.
func (s *scope) scaleOnly() bool { return s.paused() || s.blocked != nil }

// current returns the set of the current template, or nil.
func (s *scope) current() *infrav1.CAPTMachineSet {
	return machines.FindCurrent(s.template(), s.sets)
}

// template returns the current template, with the Kubernetes version of the machines.
func (s *scope) template() *infrav1.MachineTemplate {
	return s.versions.Template(&s.deployment.Spec.Template, s.sets)
}

// rollout returns the state that decisions are based on.
func (s *scope) rollout() machines.Rollout {
	r := machines.Rollout{
		Replicas: s.replicas(), Strategy: machines.StrategyType(s.deployment.Spec.Strategy), Limits: s.limits,
		ScaleOnly: s.scaleOnly(), HistoryLimit: ptr.Deref(s.deployment.Spec.RevisionHistoryLimit, 10), Now: s.now,
	}
	current := s.current()
	for _, set := range s.sets {
		state := machines.SetOf(set, s.machines[set.UID])
		if current != nil && set.UID == current.UID {
			r.Current = state
		} else {
			r.Old = append(r.Old, state)
		}
	}
	return r
}

// totals counts the machines of all sets.
func (s *scope) totals() machines.Totals {
	var t machines.Totals
	current := s.current()
	for _, set := range s.sets {
		c := machines.Count(s.machines[set.UID], machines.Seconds(set.Spec.MinReadySeconds), s.now)
		t.Replicas += c.Replicas
		t.Ready += c.Ready
		t.Available += c.Available
		if current != nil && set.UID == current.UID {
			t.Updated = c.Replicas
		}
	}
	return t
}

// updateCounts updates the numbers of replicas in the status.
func (s *scope) updateCounts() {
	t := s.totals()
	var desired int32
	for _, set := range s.sets {
		if set.DeletionTimestamp.IsZero() {
			desired += machines.Replicas(set.Spec.Replicas)
		}
	}
	status := &s.deployment.Status
	status.Replicas, status.UpdatedReplicas, status.ReadyReplicas = new(t.Replicas), new(t.Updated), new(t.Ready)
	status.AvailableReplicas, status.UnavailableReplicas = new(t.Available), new(max(desired-t.Available, 0))
}
