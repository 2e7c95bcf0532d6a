package captmachineset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/machines"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// replicas makes or deletes machines until there are as many as wanted.
func (r *Reconciler) replicas(ctx context.Context, s *scope) error {
	if why := machines.Mismatch(s.selector, machines.Labels(s.set)); why != "" {
		return fault.Stall(infrav1.SelectorMismatchReason, "%s", why)
	}
	if err := r.look(ctx, s); err != nil {
		return err
	}
	s.looked = true
	err := r.sync(ctx, s)
	if err == nil {
		err = r.inPlace(ctx, s)
	}
	s.count()
	if err != nil {
		return err
	}
	return s.inSync()
}

// sync makes or deletes what the cache says is missing or too much, if the API
// server says so too: what the cache does not show may have been made, or may be
// gone, already.
func (r *Reconciler) sync(ctx context.Context, s *scope) error {
	if s.todo().InSync() {
		return nil
	}
	if err := r.lookLive(ctx, s); err != nil {
		return err
	}
	todo := s.todo()
	if len(todo.Delete) > 0 {
		return r.shrink(ctx, s, todo.Delete)
	}
	if todo.Create > 0 {
		return r.grow(ctx, s, todo.Create)
	}
	return nil
}

// todo is what the set has to do, and may.
func (s *scope) todo() machines.Resize {
	todo := machines.Sync(s.counted(), machines.Replicas(s.set.Spec.Replicas), s.set.Spec.DeletePolicy, s.minReady(), s.now)
	if s.frozen() {
		todo.Create = 0
	}
	return todo
}

// frozen tells whether the set may not make machines.
func (s *scope) frozen() bool {
	_, frozen := s.set.Annotations[clusterv1.DisableMachineCreateAnnotation]
	return frozen
}

// grow makes n machines, at first few at a time.
func (r *Reconciler) grow(ctx context.Context, s *scope, n int) error {
	var mu sync.Mutex
	var names []string
	made, err := machines.SlowStart(n, func(int) error {
		m, err := r.create(ctx, s.set)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		s.claimed = append(s.claimed, m)
		names = append(names, m.Name)
		return nil
	})
	if made > 0 {
		slices.Sort(names)
		r.tell(s.set, nil, scaledUp(names))
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return fault.Wait(infrav1.ScalingUpReason, "No machines can be made: the namespace is being deleted")
	}
	return err
}

// attempts is how often a machine gets another name because its own is taken.
const attempts = 5

func (r *Reconciler) create(ctx context.Context, set *infrav1.CAPTMachineSet) (*infrav1.CAPTMachine, error) {
	for i := 1; ; i++ {
		m := machines.NewMachine(set, machines.MachineName(set.Name))
		err := r.Client.Create(ctx, m)
		if err == nil {
			return m, nil
		}
		if !apierrors.IsAlreadyExists(err) || i == attempts {
			return nil, fmt.Errorf("creating a machine: %w", err)
		}
	}
}

// shrink deletes machines.
func (r *Reconciler) shrink(ctx context.Context, s *scope, victims []machines.Machine) error {
	errs := make([]error, len(victims))
	var wg sync.WaitGroup
	for i, victim := range victims {
		wg.Go(func() { errs[i] = r.remove(ctx, s.find(victim)) })
	}
	wg.Wait()
	var names []string
	for i, victim := range victims {
		if errs[i] == nil {
			names = append(names, victim.Name)
			s.forget(victim)
		}
	}
	if len(names) > 0 {
		r.tell(s.set, nil, scaledDown(names))
	}
	return errors.Join(errs...)
}

// discard deletes a machine, whatever became of it. One that is gone is no error.
func (r *Reconciler) discard(ctx context.Context, m *infrav1.CAPTMachine) error {
	err := r.Client.Delete(ctx, m, client.Preconditions{UID: &m.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting machine %s: %w", m.Name, err)
	}
	return nil
}

// remove deletes the version of a machine that was decided on: one that became
// ready meanwhile may not be the one to go. A machine that is gone is no error.
func (r *Reconciler) remove(ctx context.Context, m *infrav1.CAPTMachine) error {
	err := r.Client.Delete(ctx, m, client.Preconditions{UID: &m.UID, ResourceVersion: &m.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting machine %s: %w", m.Name, err)
	}
	return nil
}

func (s *scope) find(victim machines.Machine) *infrav1.CAPTMachine {
	i := slices.IndexFunc(s.claimed, func(m *infrav1.CAPTMachine) bool { return m.UID == victim.UID })
	return s.claimed[i]
}

// forget counts a machine as being deleted before the cache does.
func (s *scope) forget(victim machines.Machine) {
	for i, m := range s.claimed {
		if m.UID == victim.UID {
			s.claimed[i] = m.DeepCopy()
			s.claimed[i].DeletionTimestamp = &metav1.Time{Time: s.now}
		}
	}
}

// inPlace gives the machines what the template says and a running machine can
// take over.
func (r *Reconciler) inPlace(ctx context.Context, s *scope) error {
	var errs []error
	for i, m := range s.claimed {
		if !m.DeletionTimestamp.IsZero() {
			continue
		}
		updated := m.DeepCopy()
		if machines.InPlace(s.set, updated); machines.SameMachine(m, updated) {
			continue
		}
		if err := r.Client.Patch(ctx, updated, client.MergeFrom(m)); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("updating machine %s: %w", m.Name, err))
			continue
		}
		s.claimed[i] = updated
	}
	return errors.Join(errs...)
}

// count writes the numbers into the status.
func (s *scope) count() {
	all := s.counted()
	c := machines.Count(all, s.minReady(), s.now)
	var labelled int32
	for _, m := range s.claimed {
		if m.DeletionTimestamp.IsZero() && machines.FullyLabelled(s.set, m) {
			labelled++
		}
	}
	status := &s.set.Status
	status.Replicas, status.ReadyReplicas = new(c.Replicas), new(c.Ready)
	status.AvailableReplicas, status.FullyLabeledReplicas = new(c.Available), new(labelled)
}

// inSync waits until there are as many machines as wanted.
func (s *scope) inSync() error {
	has, wanted := *s.set.Status.Replicas, machines.Replicas(s.set.Spec.Replicas)
	deleting := s.names(func(m *infrav1.CAPTMachine) bool { return !m.DeletionTimestamp.IsZero() })
	switch {
	case has < wanted && s.frozen():
		return fault.Wait(infrav1.CreationDisabledReason, "%d of %d machines exist, and the annotation %s keeps the set from making more",
			has, wanted, clusterv1.DisableMachineCreateAnnotation)
	case has < wanted:
		return fault.Wait(infrav1.ScalingUpReason, "%d of %d machines exist", has, wanted)
	case has > wanted || len(deleting) > 0:
		return fault.Wait(infrav1.ScalingDownReason, "Waiting for %s to be deleted", listed(deleting))
	}
	return nil
}

// machinesReady waits until every machine is ready.
func (r *Reconciler) machinesReady(_ context.Context, s *scope) error {
	notReady := s.names(func(m *infrav1.CAPTMachine) bool { return m.DeletionTimestamp.IsZero() && !machines.Of(m).Ready })
	if len(notReady) == 0 {
		return nil
	}
	text := fmt.Sprintf("%d of %d machines are not ready: %s", len(notReady), *s.set.Status.Replicas, listed(notReady))
	if next := r.nextAvailable(s); next > 0 {
		return fault.WaitFor(next, infrav1.MachinesNotReadyReason, "%s", text)
	}
	return fault.Wait(infrav1.MachinesNotReadyReason, "%s", text)
}

// nextAvailable is when the clock makes another machine available.
func (r *Reconciler) nextAvailable(s *scope) time.Duration {
	return machines.NextAvailable(s.counted(), s.minReady(), s.now)
}

// names lists machines in order, those that are not ready with their reason.
func (s *scope) names(match func(*infrav1.CAPTMachine) bool) []string {
	var names []string
	for _, m := range s.claimed {
		if !match(m) {
			continue
		}
		name := m.Name
		if ready := meta.FindStatusCondition(m.Status.Conditions, infrav1.ReadyCondition); ready != nil && ready.Status != metav1.ConditionTrue {
			name += " (" + ready.Reason + ")"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// mostNamed is how many machines a message names.
const mostNamed = 5

func listed(names []string) string {
	text := strings.Join(names[:min(len(names), mostNamed)], ", ")
	if more := len(names) - mostNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
