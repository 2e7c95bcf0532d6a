package captmachineset

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/machines"
	"github.com/appthrust/capt/internal/cluster/ownership"
)

// readMachines reads the set's machines from the cache. It adopts matching
// machines without a controller and releases those that no longer match.
func (r *Reconciler) readMachines(ctx context.Context, s *scope) error {
	var candidates []*infrav1.CAPTMachine
	for _, controller := range []string{string(s.set.UID), ownership.NoController} {
		var list infrav1.CAPTMachineList
		err := r.Client.List(ctx, &list, client.InNamespace(s.set.Namespace), client.MatchingFields{controllerIndex: controller}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return fmt.Errorf("listing machines: %w", err)
		}
		candidates = append(candidates, ownership.Pointers(list.Items)...)
	}
	return r.claim(ctx, s, candidates)
}

// readLiveMachines reads the set's machines from the API server. It fails if the
// set is no longer the one that was read.
func (r *Reconciler) readLiveMachines(ctx context.Context, s *scope) error {
	if err := r.confirm(ctx, s); err != nil {
		return err
	}
	return r.claimLive(ctx, s, client.MatchingLabelsSelector{Selector: s.selector})
}

// claimLive claims the machines that the API server lists.
func (r *Reconciler) claimLive(ctx context.Context, s *scope, options ...client.ListOption) error {
	var list infrav1.CAPTMachineList
	if err := r.APIReader.List(ctx, &list, append(options, client.InNamespace(s.set.Namespace))...); err != nil {
		return fmt.Errorf("listing machines: %w", err)
	}
	return r.claim(ctx, s, ownership.Pointers(list.Items))
}

// confirm asks the API server, once per reconcile, whether the set is still the
// one that was read.
func (r *Reconciler) confirm(ctx context.Context, s *scope) error {
	if s.confirmed {
		return nil
	}
	resource := infrav1.GroupVersion.WithResource("captmachinesets").GroupResource()
	if err := ownership.Confirm(ctx, r.APIReader, resource, s.set, &infrav1.CAPTMachineSet{}); err != nil {
		return err
	}
	s.confirmed = true
	return nil
}

// claim sets the machines of the scope.
func (r *Reconciler) claim(ctx context.Context, s *scope, candidates []*infrav1.CAPTMachine) error {
	claimer := ownership.Claimer[*infrav1.CAPTMachine]{
		Owner:  ownership.Owner{Object: s.set, Selector: s.selector, ClusterName: s.set.Spec.ClusterName},
		Client: r.Client, Reference: machines.SetReference(s.set),
		Confirm:   func(ctx context.Context) error { return r.confirm(ctx, s) },
		OnAdopt:   func(m *infrav1.CAPTMachine) { machineAdopted(m.Name).Record(r.Recorder, s.set, m) },
		OnRelease: func(m *infrav1.CAPTMachine) { machineReleased(m.Name).Record(r.Recorder, s.set, m) },
	}
	claimed, err := claimer.Claim(ctx, candidates)
	if err != nil {
		return err
	}
	s.machines = claimed
	return nil
}
