package captmachinedeployment

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/machines"
)

// errChanged says that a deployment is not any more what was decided on.
var errChanged = errors.New("it changed since it was read")

// look finds the deployment's sets and their machines in the cache: it adopts
// sets that nobody owns and releases those that the selector does not find any
// more.
func (r *Reconciler) look(ctx context.Context, s *scope) error {
	var candidates []*infrav1.CAPTMachineSet
	for _, owner := range []string{string(s.deployment.UID), orphan} {
		var list infrav1.CAPTMachineSetList
		err := r.Client.List(ctx, &list, client.InNamespace(s.deployment.Namespace), client.MatchingFields{setIndex: owner}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return fmt.Errorf("listing sets: %w", err)
		}
		candidates = append(candidates, pointers(list.Items)...)
	}
	if err := r.claim(ctx, s, candidates); err != nil {
		return err
	}
	s.machines = map[types.UID][]machines.Machine{}
	for _, set := range s.sets {
		var list infrav1.CAPTMachineList
		err := r.Client.List(ctx, &list, client.InNamespace(s.deployment.Namespace), client.MatchingFields{machineIndex: string(set.UID)}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return fmt.Errorf("listing machines: %w", err)
		}
		s.group(&list)
	}
	s.count()
	return nil
}

// lookLive finds the same at the API server, and confirms that the deployment
// is still what was read.
func (r *Reconciler) lookLive(ctx context.Context, s *scope) error {
	if err := r.confirm(ctx, s); err != nil {
		return err
	}
	inside := client.InNamespace(s.deployment.Namespace)
	var sets infrav1.CAPTMachineSetList
	if err := r.APIReader.List(ctx, &sets, inside, client.MatchingLabelsSelector{Selector: s.selector}); err != nil {
		return fmt.Errorf("listing sets: %w", err)
	}
	if err := r.claim(ctx, s, pointers(sets.Items)); err != nil {
		return err
	}
	s.machines = map[types.UID][]machines.Machine{}
	for _, selector := range s.selectors() {
		var list infrav1.CAPTMachineList
		if err := r.APIReader.List(ctx, &list, inside, client.MatchingLabelsSelector{Selector: selector}); err != nil {
			return fmt.Errorf("listing machines: %w", err)
		}
		s.group(&list)
	}
	s.count()
	return nil
}

// selectors find every machine of the sets: the deployment's own does, but for
// a set that was adopted and makes machines with other labels.
func (s *scope) selectors() []labels.Selector {
	all := []labels.Selector{s.selector}
	for _, set := range s.sets {
		if s.selector.Matches(labels.Set(machines.Labels(set))) {
			continue
		}
		if selector, err := metav1.LabelSelectorAsSelector(&set.Spec.Selector); err == nil {
			all = append(all, selector)
		}
	}
	return all
}

// group puts machines to their sets, each of them once.
func (s *scope) group(list *infrav1.CAPTMachineList) {
	known := map[types.UID]bool{}
	for _, set := range s.sets {
		for _, m := range s.machines[set.UID] {
			known[m.UID] = true
		}
	}
	for i := range list.Items {
		m := &list.Items[i]
		if controller := metav1.GetControllerOfNoCopy(m); controller != nil && !known[m.UID] {
			s.machines[controller.UID] = append(s.machines[controller.UID], machines.Of(m))
		}
	}
}

// confirm asks the API server whether the deployment is still the one that was
// read, and asks for the same.
func (r *Reconciler) confirm(ctx context.Context, s *scope) error {
	var live infrav1.CAPTMachineDeployment
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(s.deployment), &live); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the deployment again: %w", err)
	}
	if live.UID != s.deployment.UID || live.Generation != s.deployment.Generation || !live.DeletionTimestamp.IsZero() {
		resource := infrav1.GroupVersion.WithResource("captmachinedeployments").GroupResource()
		return apierrors.NewConflict(resource, s.deployment.Name, errChanged)
	}
	return nil
}

// claim keeps what is the deployment's own.
func (r *Reconciler) claim(ctx context.Context, s *scope, candidates []*infrav1.CAPTMachineSet) error {
	owner := s.owner()
	var claimed []*infrav1.CAPTMachineSet
	var errs []error
	for _, set := range candidates {
		switch owner.Claim(set) {
		case machines.Keep:
			claimed = append(claimed, set)
		case machines.Adopt:
			if adopted, err := r.adopt(ctx, s, set); err != nil {
				errs = append(errs, err)
			} else if adopted != nil {
				claimed = append(claimed, adopted)
			}
		case machines.Release:
			errs = append(errs, r.release(ctx, s, set))
		case machines.Ignore:
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.sets = claimed
	return nil
}

// adopt makes the deployment the controller of a set. One that has gone
// meanwhile is none.
func (r *Reconciler) adopt(ctx context.Context, s *scope, set *infrav1.CAPTMachineSet) (*infrav1.CAPTMachineSet, error) {
	if err := r.confirm(ctx, s); err != nil {
		return nil, err
	}
	adopted := set.DeepCopy()
	adopted.OwnerReferences = machines.Adopted(set.OwnerReferences, machines.DeploymentReference(s.deployment))
	if err := r.patch(ctx, set, adopted); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("adopting set %s: %w", set.Name, err)
	}
	r.tell(s.deployment, adopted, setAdopted(set.Name))
	return adopted, nil
}

// release lets a set go that does not match any more.
func (r *Reconciler) release(ctx context.Context, s *scope, set *infrav1.CAPTMachineSet) error {
	released := set.DeepCopy()
	released.OwnerReferences = machines.Released(set.OwnerReferences, machines.DeploymentReference(s.deployment))
	if err := r.patch(ctx, set, released); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("releasing set %s: %w", set.Name, err)
	}
	r.tell(s.deployment, released, setReleased(set.Name))
	return nil
}

// patch writes on the version that was read and on no other: what was decided
// on an old version must not become true.
func (r *Reconciler) patch(ctx context.Context, from, to *infrav1.CAPTMachineSet) error {
	return r.Client.Patch(ctx, to, client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{}))
}

func pointers(items []infrav1.CAPTMachineSet) []*infrav1.CAPTMachineSet {
	all := make([]*infrav1.CAPTMachineSet, 0, len(items))
	for i := range items {
		all = append(all, &items[i])
	}
	return all
}
