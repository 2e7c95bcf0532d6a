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
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// advance takes the next step of a rollout. What the cache asks for is done
// only if the API server asks for it too.
func (r *Reconciler) advance(ctx context.Context, s *scope) error {
	wanted := map[string]string{clusterv1.ClusterNameLabel: s.deployment.Spec.ClusterName}
	maps.Copy(wanted, s.deployment.Spec.Template.ObjectMeta.Labels)
	if why := machines.Mismatch(s.selector, wanted); why != "" {
		s.withheld = fault.Stall(infrav1.SelectorMismatchReason, "%s", why)
	}
	if done, err := r.rollback(ctx, s); done || err != nil {
		return err
	}
	if s.decide().empty() {
		s.remember()
		return nil
	}
	if err := r.lookLive(ctx, s); err != nil {
		return err
	}
	todo := s.decide()
	if err := r.apply(ctx, s, todo); err != nil {
		return err
	}
	s.remember()
	return nil
}

// changes is what is to be done to the sets.
type changes struct {
	patches []change
	create  *infrav1.CAPTMachineSet
	remove  []*infrav1.CAPTMachineSet
}

type change struct {
	from, to *infrav1.CAPTMachineSet
}

func (c changes) empty() bool { return len(c.patches) == 0 && c.create == nil && len(c.remove) == 0 }

// decide turns the plan of the rollout into changes of sets.
func (s *scope) decide() changes {
	rollout := s.rollout()
	plan := rollout.Plan()
	if plan.Unsettled != "" {
		s.underway = fmt.Sprintf("waiting for CAPTMachineSet %s to act on its new size", plan.Unsettled)
	}
	current := s.current()
	revision := machines.NextRevision(current, s.sets)
	note := machines.SizeNote{Desired: s.replicas(), Max: rollout.Max()}

	var todo changes
	for _, set := range s.sets {
		if !set.DeletionTimestamp.IsZero() {
			continue
		}
		to := set.DeepCopy()
		if !s.held() {
			machines.Tend(s.deployment, to, rollout.Frozen(machines.SetOf(set, nil)))
			if current != nil && set.UID == current.UID {
				machines.Revise(s.deployment, to, revision)
			}
		}
		for _, size := range plan.Resize {
			if size.Set.UID != set.UID {
				continue
			}
			note.Replicas = size.To
			note.Write(to)
			if size.To > size.Set.Replicas {
				delete(to.Annotations, clusterv1.DisableMachineCreateAnnotation)
			}
		}
		if !machines.SameSet(set, to) {
			todo.patches = append(todo.patches, change{from: set, to: to})
		}
		for _, gone := range plan.Remove {
			if gone.UID == set.UID {
				todo.remove = append(todo.remove, set)
			}
		}
	}
	if plan.Create {
		note.Replicas = plan.Size
		todo.create = machines.NewSet(s.deployment, revision, note)
	}
	return todo
}

// apply carries out changes. What fails is decided again.
func (r *Reconciler) apply(ctx context.Context, s *scope, todo changes) error {
	for _, c := range todo.patches {
		if err := r.patch(ctx, c.from, c.to); err != nil {
			return fmt.Errorf("updating set %s: %w", c.from.Name, err)
		}
		s.replace(c.to)
		if from, to := machines.Replicas(c.from.Spec.Replicas), machines.Replicas(c.to.Spec.Replicas); from != to {
			r.tell(s.deployment, c.to, setScaled(c.to.Name, from, to))
		}
	}
	if todo.create != nil {
		if err := r.create(ctx, s, todo.create); err != nil {
			return err
		}
	}
	for _, set := range todo.remove {
		if err := r.remove(ctx, set); err != nil {
			return err
		}
	}
	return nil
}

// replace puts the written version of a set in place of what was read.
func (s *scope) replace(written *infrav1.CAPTMachineSet) {
	for i, set := range s.sets {
		if set.UID == written.UID {
			s.sets[i] = written
		}
	}
}

// create makes the set of the present template. A name that is taken by another
// set is a collision, which is counted, so that the next attempt has another
// name; so is that of a set which is being deleted, whose machines may only
// leave when there are others for their pods.
func (r *Reconciler) create(ctx context.Context, s *scope, set *infrav1.CAPTMachineSet) error {
	err := r.Client.Create(ctx, set)
	switch {
	case err == nil:
		s.sets = append(s.sets, set)
		r.tell(s.deployment, set, setCreated(set.Name, machines.Replicas(set.Spec.Replicas), machines.Revision(set)))
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		s.withheld = fault.Wait(infrav1.RollingOutReason, "No set can be made: the namespace is being deleted")
		return nil
	case !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("creating set %s: %w", set.Name, err)
	}
	var taken infrav1.CAPTMachineSet
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(set), &taken); err != nil {
		return fmt.Errorf("reading set %s: %w", set.Name, err)
	}
	if metav1.IsControlledBy(&taken, s.deployment) && taken.DeletionTimestamp.IsZero() &&
		machines.SameShape(&taken.Spec.Template.Spec, &set.Spec.Template.Spec) {
		// It is the set we want, made a moment ago.
		s.sets = append(s.sets, &taken)
		return nil
	}
	var collisions int32
	if s.deployment.Status.CollisionCount != nil {
		collisions = *s.deployment.Status.CollisionCount
	}
	s.deployment.Status.CollisionCount = new(collisions + 1)
	s.underway = fmt.Sprintf("the name %s is taken, looking for another", set.Name)
	return nil
}

// remove deletes a set. One that is gone is no error.
func (r *Reconciler) remove(ctx context.Context, set *infrav1.CAPTMachineSet) error {
	err := r.Client.Delete(ctx, set, client.Preconditions{UID: &set.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting set %s: %w", set.Name, err)
	}
	return nil
}

// remember writes the revision of the current set into the status.
func (s *scope) remember() {
	if current := s.current(); current != nil {
		s.deployment.Status.Revision = machines.Revision(current)
	}
}
