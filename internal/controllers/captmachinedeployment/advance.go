package captmachinedeployment

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/machines"
	"github.com/appthrust/capt/internal/cluster/ownership"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// advance takes the next step of a rollout. It changes sets only if the API
// server agrees with the cache, which may be outdated.
func (r *Reconciler) advance(ctx context.Context, s *scope) error {
	labels := map[string]string{clusterv1.ClusterNameLabel: s.deployment.Spec.ClusterName}
	maps.Copy(labels, s.deployment.Spec.Template.ObjectMeta.Labels)
	if problem := machines.SelectorProblem(s.selector, labels); problem != "" {
		s.blocked = fault.Stall(infrav1.SelectorMismatchReason, "%s", problem)
	}
	if done, err := r.rollback(ctx, s); done || err != nil {
		return err
	}
	if err := r.recordVersion(ctx, s); err != nil {
		return err
	}
	if s.decide().empty() {
		s.updateRevision()
		return nil
	}
	if err := r.readLive(ctx, s); err != nil {
		return err
	}
	if err := r.apply(ctx, s, s.decide()); err != nil {
		return err
	}
	s.updateRevision()
	return nil
}

// changes are the changes of sets that a reconcile makes.
type changes struct {
	patches []patch
	create  *infrav1.CAPTMachineSet
	remove  []*infrav1.CAPTMachineSet
}

type patch struct {
	from, to *infrav1.CAPTMachineSet
}

func (c changes) empty() bool { return len(c.patches) == 0 && c.create == nil && len(c.remove) == 0 }

// decide turns the plan of the rollout into changes of sets.
func (s *scope) decide() changes {
	rollout := s.rollout()
	plan := rollout.Plan()
	if plan.Unsettled != "" {
		s.waitingFor = fmt.Sprintf("waiting for CAPTMachineSet %s to observe its new size", plan.Unsettled)
	}
	current := s.current()
	revision := machines.NextRevision(current, s.sets)
	size := machines.SizeRecord{Desired: s.replicas(), Max: rollout.Max()}

	var c changes
	for _, set := range s.sets {
		if !set.DeletionTimestamp.IsZero() {
			continue
		}
		to := set.DeepCopy()
		if !s.scaleOnly() {
			machines.UpdateSet(s.deployment, to, rollout.CreationDisabled(machines.SetOf(set, nil)))
			if current != nil && set.UID == current.UID {
				machines.UpdateCurrentSet(s.deployment, to, revision)
			}
		}
		for _, resize := range plan.Resize {
			if resize.Set.UID != set.UID {
				continue
			}
			size.Replicas = resize.To
			size.Apply(to)
			if resize.To > resize.Set.Replicas {
				delete(to.Annotations, clusterv1.DisableMachineCreateAnnotation)
			}
		}
		if !machines.SameSet(set, to) {
			c.patches = append(c.patches, patch{from: set, to: to})
		}
		for _, removed := range plan.Remove {
			if removed.UID == set.UID {
				c.remove = append(c.remove, set)
			}
		}
	}
	if plan.Create {
		size.Replicas = plan.Size
		d := s.deployment.DeepCopy()
		d.Spec.Template = *s.template()
		c.create = machines.NewSet(d, revision, size)
	}
	return c
}

// apply writes changes. After an error the next reconcile decides anew.
func (r *Reconciler) apply(ctx context.Context, s *scope, c changes) error {
	for _, p := range c.patches {
		if err := ownership.Patch(ctx, r.Client, p.from, p.to); err != nil {
			return fmt.Errorf("updating set %s: %w", p.from.Name, err)
		}
		s.replace(p.to)
		if from, to := machines.Replicas(p.from.Spec.Replicas), machines.Replicas(p.to.Spec.Replicas); from != to {
			setScaled(p.to.Name, from, to).Record(r.Recorder, s.deployment, p.to)
		}
	}
	if c.create != nil {
		if err := r.create(ctx, s, c.create); err != nil {
			return err
		}
	}
	for _, set := range c.remove {
		if err := r.remove(ctx, set); err != nil {
			return err
		}
	}
	return nil
}

// replace replaces a set that was read with the version that was written.
func (s *scope) replace(written *infrav1.CAPTMachineSet) {
	for i, set := range s.sets {
		if set.UID == written.UID {
			s.sets[i] = written
		}
	}
}

// create creates the set of the current template. If another set has its name,
// the collision is counted and the next reconcile tries another name. This
// includes a set that is being deleted: its machines may be deleted only when
// replacements exist for their pods.
func (r *Reconciler) create(ctx context.Context, s *scope, set *infrav1.CAPTMachineSet) error {
	err := r.Client.Create(ctx, set)
	switch {
	case err == nil:
		s.sets = append(s.sets, set)
		setCreated(set.Name, machines.Replicas(set.Spec.Replicas), machines.Revision(set)).Record(r.Recorder, s.deployment, set)
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		s.blocked = fault.Wait(infrav1.RollingOutReason, "A set cannot be created: the namespace is being deleted")
		return nil
	case !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("creating set %s: %w", set.Name, err)
	}
	var existing infrav1.CAPTMachineSet
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(set), &existing); err != nil {
		return fmt.Errorf("reading set %s: %w", set.Name, err)
	}
	if metav1.IsControlledBy(&existing, s.deployment) && existing.DeletionTimestamp.IsZero() &&
		machines.UpdatableInPlace(&existing.Spec.Template.Spec, &set.Spec.Template.Spec) {
		// This is the desired set, created a moment ago.
		s.sets = append(s.sets, &existing)
		return nil
	}
	var collisions int32
	if s.deployment.Status.CollisionCount != nil {
		collisions = *s.deployment.Status.CollisionCount
	}
	s.deployment.Status.CollisionCount = new(collisions + 1)
	s.waitingFor = fmt.Sprintf("the name %s is taken, trying another one", set.Name)
	return nil
}

// remove deletes a set. It succeeds if the set does not exist.
func (r *Reconciler) remove(ctx context.Context, set *infrav1.CAPTMachineSet) error {
	err := r.Client.Delete(ctx, set, client.Preconditions{UID: &set.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting set %s: %w", set.Name, err)
	}
	return nil
}

// updateRevision sets the revision of the current set in the status.
func (s *scope) updateRevision() {
	if current := s.current(); current != nil {
		s.deployment.Status.Revision = machines.Revision(current)
	}
}
