package captmachineset

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/machines"
)

// errChanged says that a set is not any more what was decided on.
var errChanged = errors.New("it changed since it was read")

// look finds the set's machines in the cache: it adopts those that nobody owns
// and releases those that the selector does not find any more.
func (r *Reconciler) look(ctx context.Context, s *scope) error {
	var candidates []*infrav1.CAPTMachine
	for _, owner := range []string{string(s.set.UID), orphan} {
		var list infrav1.CAPTMachineList
		err := r.Client.List(ctx, &list, client.InNamespace(s.set.Namespace), client.MatchingFields{ownerIndex: owner}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return fmt.Errorf("listing machines: %w", err)
		}
		candidates = append(candidates, pointers(list.Items)...)
	}
	return r.claim(ctx, s, candidates)
}

// lookLive finds the set's machines at the API server, and confirms that the
// set is still what was read.
func (r *Reconciler) lookLive(ctx context.Context, s *scope) error {
	if err := r.confirm(ctx, s); err != nil {
		return err
	}
	var list infrav1.CAPTMachineList
	err := r.APIReader.List(ctx, &list, client.InNamespace(s.set.Namespace), client.MatchingLabelsSelector{Selector: s.selector})
	if err != nil {
		return fmt.Errorf("listing machines: %w", err)
	}
	return r.claim(ctx, s, pointers(list.Items))
}

// lookOwned finds the machines that the set controls at the API server, whatever
// their labels.
func (r *Reconciler) lookOwned(ctx context.Context, s *scope) error {
	var list infrav1.CAPTMachineList
	if err := r.APIReader.List(ctx, &list, client.InNamespace(s.set.Namespace)); err != nil {
		return fmt.Errorf("listing machines: %w", err)
	}
	return r.claim(ctx, s, pointers(list.Items))
}

// confirm asks the API server, once for each look, whether the set is still the
// one that was read: another of its name, one that is being deleted, or another
// size would make what follows wrong.
func (r *Reconciler) confirm(ctx context.Context, s *scope) error {
	if s.fresh {
		return nil
	}
	var live infrav1.CAPTMachineSet
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(s.set), &live); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the set again: %w", err)
	}
	if live.UID != s.set.UID || live.Generation != s.set.Generation || !live.DeletionTimestamp.IsZero() {
		resource := infrav1.GroupVersion.WithResource("captmachinesets").GroupResource()
		return apierrors.NewConflict(resource, s.set.Name, errChanged)
	}
	s.fresh = true
	return nil
}

// claim keeps what is the set's own.
func (r *Reconciler) claim(ctx context.Context, s *scope, candidates []*infrav1.CAPTMachine) error {
	owner := s.owner()
	var claimed []*infrav1.CAPTMachine
	var errs []error
	for _, m := range candidates {
		switch owner.Claim(m) {
		case machines.Keep:
			claimed = append(claimed, m)
		case machines.Adopt:
			if adopted, err := r.adopt(ctx, s, m); err != nil {
				errs = append(errs, err)
			} else if adopted != nil {
				claimed = append(claimed, adopted)
			}
		case machines.Release:
			errs = append(errs, r.release(ctx, s, m))
		case machines.Ignore:
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.claimed = claimed
	return nil
}

// adopt makes the set the controller of a machine. One that has gone meanwhile
// is none.
func (r *Reconciler) adopt(ctx context.Context, s *scope, m *infrav1.CAPTMachine) (*infrav1.CAPTMachine, error) {
	if err := r.confirm(ctx, s); err != nil {
		return nil, err
	}
	adopted := m.DeepCopy()
	adopted.OwnerReferences = machines.Adopted(m.OwnerReferences, machines.SetReference(s.set))
	if err := r.patchLocked(ctx, m, adopted); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("adopting machine %s: %w", m.Name, err)
	}
	r.tell(s.set, adopted, machineAdopted(m.Name))
	return adopted, nil
}

// release lets a machine go that does not match any more.
func (r *Reconciler) release(ctx context.Context, s *scope, m *infrav1.CAPTMachine) error {
	released := m.DeepCopy()
	released.OwnerReferences = machines.Released(m.OwnerReferences, machines.SetReference(s.set))
	if err := r.patchLocked(ctx, m, released); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("releasing machine %s: %w", m.Name, err)
	}
	r.tell(s.set, released, machineReleased(m.Name))
	return nil
}

// patchLocked writes on the version that was read and on no other: owner
// references are a list, and a patch replaces the whole of it.
func (r *Reconciler) patchLocked(ctx context.Context, from, to *infrav1.CAPTMachine) error {
	return r.Client.Patch(ctx, to, client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{}))
}

func pointers(items []infrav1.CAPTMachine) []*infrav1.CAPTMachine {
	all := make([]*infrav1.CAPTMachine, 0, len(items))
	for i := range items {
		all = append(all, &items[i])
	}
	return all
}
