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

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/machines"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// scope is what was read for one look at a deployment.
type scope struct {
	deployment *infrav1.CAPTMachineDeployment
	selector   labels.Selector
	limits     machines.Limits
	now        time.Time

	// was are the numbers, reason and revision that the status had.
	was         machines.Numbers
	wasReason   string
	wasRevision int64

	// sets are the deployment's own. They may be shared with the cache.
	sets []*infrav1.CAPTMachineSet
	// machines are those of each set.
	machines map[types.UID][]machines.Machine

	// withheld says why nothing is rolled out, if something is wrong.
	withheld error
	// turned is true when the template was just replaced by an earlier one.
	turned bool
	// underway says what is being done before the rollout goes on.
	underway string

	state     machines.State
	remaining time.Duration
}

func (r *Reconciler) scope(_ context.Context, d *infrav1.CAPTMachineDeployment, _ *clusterv1.Cluster) (*scope, error) {
	selector, err := metav1.LabelSelectorAsSelector(&d.Spec.Selector)
	if err != nil {
		return nil, fault.Stall(infrav1.SelectorMismatchReason, "spec.selector cannot be read: %w", err)
	}
	if selector.Empty() {
		return nil, fault.Stall(infrav1.SelectorMismatchReason, "%s", machines.Mismatch(selector, nil))
	}
	limits, err := machines.LimitsOf(d.Spec.Strategy, machines.Replicas(d.Spec.Replicas))
	if err != nil {
		return nil, fault.Stall(infrav1.InvalidStrategyReason, "spec.strategy.rollingUpdate: %w", err)
	}
	d.Status.Selector = selector.String()
	s := &scope{
		deployment: d, selector: selector, limits: limits, now: r.Now(),
		was: machines.Numbers{
			Replicas: ptr.Deref(d.Status.Replicas, 0), Updated: ptr.Deref(d.Status.UpdatedReplicas, 0),
			Ready: ptr.Deref(d.Status.ReadyReplicas, 0), Available: ptr.Deref(d.Status.AvailableReplicas, 0),
		},
		wasRevision: d.Status.Revision,
	}
	if c := meta.FindStatusCondition(d.Status.Conditions, infrav1.ProgressingCondition); c != nil {
		s.wasReason = c.Reason
	}
	return s, nil
}

func (s *scope) replicas() int32 { return machines.Replicas(s.deployment.Spec.Replicas) }

func (s *scope) paused() bool { return ptr.Deref(s.deployment.Spec.Paused, false) }

// held tells whether the deployment scales but rolls nothing out.
func (s *scope) held() bool { return s.paused() || s.withheld != nil }

// owner is the deployment as one who claims sets.
func (s *scope) owner() machines.Owner {
	return machines.Owner{Object: s.deployment, Selector: s.selector, ClusterName: s.deployment.Spec.ClusterName}
}

// current is the set of the present template, or nil.
func (s *scope) current() *infrav1.CAPTMachineSet {
	return machines.FindCurrent(&s.deployment.Spec.Template, s.sets)
}

// rollout is the state of the deployment, as the decisions want it.
func (s *scope) rollout() machines.Rollout {
	r := machines.Rollout{
		Replicas: s.replicas(), Strategy: machines.TypeOf(s.deployment.Spec.Strategy), Limits: s.limits,
		Held: s.held(), History: ptr.Deref(s.deployment.Spec.RevisionHistoryLimit, 10), Now: s.now,
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

// numbers are the machines that there are.
func (s *scope) numbers() machines.Numbers {
	var n machines.Numbers
	current := s.current()
	for _, set := range s.sets {
		c := machines.Count(s.machines[set.UID], machines.Seconds(set.Spec.MinReadySeconds), s.now)
		n.Replicas += c.Replicas
		n.Ready += c.Ready
		n.Available += c.Available
		if current != nil && set.UID == current.UID {
			n.Updated = c.Replicas
		}
	}
	return n
}

// count writes the numbers into the status.
func (s *scope) count() {
	n := s.numbers()
	var wanted int32
	for _, set := range s.sets {
		if set.DeletionTimestamp.IsZero() {
			wanted += machines.Replicas(set.Spec.Replicas)
		}
	}
	status := &s.deployment.Status
	status.Replicas, status.UpdatedReplicas, status.ReadyReplicas = new(n.Replicas), new(n.Updated), new(n.Ready)
	status.AvailableReplicas, status.UnavailableReplicas = new(n.Available), new(max(wanted-n.Available, 0))
}
