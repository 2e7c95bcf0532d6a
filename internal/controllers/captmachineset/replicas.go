package captmachineset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/machines"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// maxNames is the number of machines that a message names.
const maxNames = 5

// replicas creates or deletes machines until their number is the desired one.
func (r *Reconciler) replicas(ctx context.Context, s *scope) error {
	if problem := machines.SelectorProblem(s.selector, machines.Labels(s.set)); problem != "" {
		return fault.Stall(infrav1.SelectorMismatchReason, "%s", problem)
	}
	var err error
	if s.machines, err = s.claimer.Cached(ctx); err != nil {
		return err
	}
	s.machinesRead = true
	if err = r.scale(ctx, s); err == nil {
		err = r.updateInPlace(ctx, s)
	}
	s.updateCounts()
	if err != nil {
		return err
	}
	return s.inSync()
}

// scale creates missing machines or deletes surplus ones. It does so only if the
// API server agrees with the cache, which may be outdated.
func (r *Reconciler) scale(ctx context.Context, s *scope) error {
	if s.replicaDiff().Empty() {
		return nil
	}
	if err := s.readLive(ctx); err != nil {
		return err
	}
	diff := s.replicaDiff()
	if len(diff.Delete) > 0 {
		return r.scaleDown(ctx, s, diff.Delete)
	}
	if diff.Create > 0 {
		return r.scaleUp(ctx, s, diff.Create)
	}
	return nil
}

// replicaDiff returns the machines that are missing, if the set may create
// machines, or those to delete.
func (s *scope) replicaDiff() machines.ReplicaDiff {
	diff := machines.DiffReplicas(s.states(), machines.Replicas(s.set.Spec.Replicas), s.set.Spec.DeletePolicy, s.minReady(), s.now)
	if s.creationDisabled() {
		diff.Create = 0
	}
	return diff
}

// creationDisabled reports whether the set must not create machines.
func (s *scope) creationDisabled() bool {
	_, disabled := s.set.Annotations[clusterv1.DisableMachineCreateAnnotation]
	return disabled
}

// scaleUp creates n machines.
func (r *Reconciler) scaleUp(ctx context.Context, s *scope, n int) error {
	var names []string
	var err error
	for len(names) < n && err == nil {
		var m *infrav1.CAPTMachine
		if m, err = r.createMachine(ctx, s.set); err == nil {
			s.machines, names = append(s.machines, m), append(names, m.Name)
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		scaledUp(names).Record(r.Recorder, s.set, nil)
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return fault.Wait(infrav1.ScalingUpReason, "Machines cannot be created: the namespace is being deleted")
	}
	return err
}

// createAttempts is how often a machine name is generated if the name is taken.
const createAttempts = 5

func (r *Reconciler) createMachine(ctx context.Context, set *infrav1.CAPTMachineSet) (*infrav1.CAPTMachine, error) {
	for i := 1; ; i++ {
		m := machines.NewMachine(set, machines.MachineName(set.Name))
		err := r.Client.Create(ctx, m)
		if err == nil {
			return m, nil
		}
		if !apierrors.IsAlreadyExists(err) || i == createAttempts {
			return nil, fmt.Errorf("creating a machine: %w", err)
		}
	}
}

// scaleDown deletes machines.
func (r *Reconciler) scaleDown(ctx context.Context, s *scope, victims []machines.Machine) error {
	var names []string
	var errs []error
	for _, victim := range victims {
		if err := r.deleteUnchanged(ctx, s.find(victim)); err != nil {
			errs = append(errs, err)
			continue
		}
		names = append(names, victim.Name)
		s.markDeleting(victim)
	}
	if len(names) > 0 {
		scaledDown(names).Record(r.Recorder, s.set, nil)
	}
	return errors.Join(errs...)
}

// deleteMachine deletes a machine. It succeeds if the machine does not exist.
func (r *Reconciler) deleteMachine(ctx context.Context, m *infrav1.CAPTMachine) error {
	return r.delete(ctx, m, client.Preconditions{UID: &m.UID})
}

// deleteUnchanged deletes a machine at the version that was read. Another machine
// may have to be deleted if this one became ready in the meantime.
func (r *Reconciler) deleteUnchanged(ctx context.Context, m *infrav1.CAPTMachine) error {
	return r.delete(ctx, m, client.Preconditions{UID: &m.UID, ResourceVersion: &m.ResourceVersion})
}

func (r *Reconciler) delete(ctx context.Context, m *infrav1.CAPTMachine, preconditions client.Preconditions) error {
	if err := r.Client.Delete(ctx, m, preconditions); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting machine %s: %w", m.Name, err)
	}
	return nil
}

func (s *scope) find(state machines.Machine) *infrav1.CAPTMachine {
	i := slices.IndexFunc(s.machines, func(m *infrav1.CAPTMachine) bool { return m.UID == state.UID })
	return s.machines[i]
}

// markDeleting makes a machine count as being deleted before the cache shows it.
func (s *scope) markDeleting(state machines.Machine) {
	for i, m := range s.machines {
		if m.UID == state.UID {
			s.machines[i] = m.DeepCopy()
			s.machines[i].DeletionTimestamp = &metav1.Time{Time: s.now}
		}
	}
}

// updateInPlace updates the machines with the fields of the template that a
// running machine can follow.
func (r *Reconciler) updateInPlace(ctx context.Context, s *scope) error {
	var errs []error
	for i, m := range s.machines {
		if !m.DeletionTimestamp.IsZero() {
			continue
		}
		updated := m.DeepCopy()
		if machines.UpdateMachine(s.set, updated); machines.SameMachine(m, updated) {
			continue
		}
		if err := r.Client.Patch(ctx, updated, client.MergeFrom(m)); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("updating machine %s: %w", m.Name, err))
			continue
		}
		s.machines[i] = updated
	}
	return errors.Join(errs...)
}

// updateCounts updates the numbers of replicas in the status.
func (s *scope) updateCounts() {
	c := machines.Count(s.states(), s.minReady(), s.now)
	var labeled int32
	for _, m := range s.machines {
		if m.DeletionTimestamp.IsZero() && machines.HasLabels(s.set, m) {
			labeled++
		}
	}
	status := &s.set.Status
	status.Replicas, status.ReadyReplicas = new(c.Replicas), new(c.Ready)
	status.AvailableReplicas, status.FullyLabeledReplicas = new(c.Available), new(labeled)
}

// inSync waits until the number of machines is the desired one.
func (s *scope) inSync() error {
	existing, desired := *s.set.Status.Replicas, machines.Replicas(s.set.Spec.Replicas)
	deleting := s.names(func(m *infrav1.CAPTMachine) bool { return !m.DeletionTimestamp.IsZero() })
	switch {
	case existing < desired && s.creationDisabled():
		return fault.Wait(infrav1.CreationDisabledReason, "%d of %d machines exist: the annotation %s disables the creation of machines",
			existing, desired, clusterv1.DisableMachineCreateAnnotation)
	case existing < desired:
		return fault.Wait(infrav1.ScalingUpReason, "%d of %d machines exist", existing, desired)
	case existing > desired || len(deleting) > 0:
		return fault.Wait(infrav1.ScalingDownReason, "Waiting for %s to be deleted", message.List(deleting, maxNames))
	}
	return nil
}

// machinesReady waits until every machine is ready.
func (r *Reconciler) machinesReady(_ context.Context, s *scope) error {
	notReady := s.names(func(m *infrav1.CAPTMachine) bool { return m.DeletionTimestamp.IsZero() && !machines.MachineOf(m).Ready })
	if len(notReady) == 0 {
		return nil
	}
	text := fmt.Sprintf("%d of %d machines are not ready: %s", len(notReady), *s.set.Status.Replicas, message.List(notReady, maxNames))
	if next := r.nextAvailable(s); next > 0 {
		return fault.WaitFor(next, infrav1.MachinesNotReadyReason, "%s", text)
	}
	return fault.Wait(infrav1.MachinesNotReadyReason, "%s", text)
}

// nextAvailable returns the time until the next machine becomes available.
func (r *Reconciler) nextAvailable(s *scope) time.Duration {
	return machines.NextAvailable(s.states(), s.minReady(), s.now)
}

// names returns the sorted names of machines, with the reason if a machine is
// not ready.
func (s *scope) names(match func(*infrav1.CAPTMachine) bool) []string {
	var names []string
	for _, m := range s.machines {
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
