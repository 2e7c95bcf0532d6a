package captmachinedeployment

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/machines"
	"github.com/appthrust/capt/internal/cluster/ownership"
)

// read reads the deployment's sets and their machines from the cache. It adopts
// matching sets without a controller and releases those that no longer match.
func (r *Reconciler) read(ctx context.Context, s *scope) error {
	inNamespace := client.InNamespace(s.deployment.Namespace)
	var candidates []*infrav1.CAPTMachineSet
	for _, controller := range []string{string(s.deployment.UID), ownership.NoController} {
		var list infrav1.CAPTMachineSetList
		if err := r.Client.List(ctx, &list, inNamespace, client.MatchingFields{setIndex: controller}, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing sets: %w", err)
		}
		candidates = append(candidates, ownership.Pointers(list.Items)...)
	}
	if err := r.claim(ctx, s, candidates); err != nil {
		return err
	}
	s.machines = map[types.UID][]machines.Machine{}
	for _, set := range s.sets {
		var list infrav1.CAPTMachineList
		if err := r.Client.List(ctx, &list, inNamespace, client.MatchingFields{machineIndex: string(set.UID)}, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing machines: %w", err)
		}
		s.addMachines(&list)
	}
	s.updateCounts()
	return r.readVersions(ctx, s)
}

// readLive reads the same from the API server. It fails if the deployment is no
// longer the one that was read.
func (r *Reconciler) readLive(ctx context.Context, s *scope) error {
	if err := r.confirm(ctx, s); err != nil {
		return err
	}
	if err := r.claimLive(ctx, s, client.MatchingLabelsSelector{Selector: s.selector}); err != nil {
		return err
	}
	s.machines = map[types.UID][]machines.Machine{}
	for _, selector := range s.machineSelectors() {
		var list infrav1.CAPTMachineList
		err := r.APIReader.List(ctx, &list, client.InNamespace(s.deployment.Namespace), client.MatchingLabelsSelector{Selector: selector})
		if err != nil {
			return fmt.Errorf("listing machines: %w", err)
		}
		s.addMachines(&list)
	}
	s.updateCounts()
	return nil
}

// machineSelectors returns selectors that match every machine of the sets. The
// selector of the deployment does, except for an adopted set that creates
// machines with other labels.
func (s *scope) machineSelectors() []labels.Selector {
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

// addMachines adds the machines of a list to their sets, each machine once.
func (s *scope) addMachines(list *infrav1.CAPTMachineList) {
	known := map[types.UID]bool{}
	for _, set := range s.sets {
		for _, m := range s.machines[set.UID] {
			known[m.UID] = true
		}
	}
	for i := range list.Items {
		m := &list.Items[i]
		if controller := metav1.GetControllerOfNoCopy(m); controller != nil && !known[m.UID] {
			s.machines[controller.UID] = append(s.machines[controller.UID], machines.MachineOf(m))
		}
	}
}

// confirm asks the API server whether the deployment is still the one that was
// read.
func (r *Reconciler) confirm(ctx context.Context, s *scope) error {
	resource := infrav1.GroupVersion.WithResource("captmachinedeployments").GroupResource()
	return ownership.Confirm(ctx, r.APIReader, resource, s.deployment, &infrav1.CAPTMachineDeployment{})
}

// claimLive claims the sets that the API server lists.
func (r *Reconciler) claimLive(ctx context.Context, s *scope, options ...client.ListOption) error {
	var list infrav1.CAPTMachineSetList
	if err := r.APIReader.List(ctx, &list, append(options, client.InNamespace(s.deployment.Namespace))...); err != nil {
		return fmt.Errorf("listing sets: %w", err)
	}
	return r.claim(ctx, s, ownership.Pointers(list.Items))
}

// claim sets the sets of the scope.
func (r *Reconciler) claim(ctx context.Context, s *scope, candidates []*infrav1.CAPTMachineSet) error {
	claimer := ownership.Claimer[*infrav1.CAPTMachineSet]{
		Owner:  ownership.Owner{Object: s.deployment, Selector: s.selector, ClusterName: s.deployment.Spec.ClusterName},
		Client: r.Client, Reference: machines.DeploymentReference(s.deployment),
		Confirm:   func(ctx context.Context) error { return r.confirm(ctx, s) },
		OnAdopt:   func(set *infrav1.CAPTMachineSet) { setAdopted(set.Name).Record(r.Recorder, s.deployment, set) },
		OnRelease: func(set *infrav1.CAPTMachineSet) { setReleased(set.Name).Record(r.Recorder, s.deployment, set) },
	}
	claimed, err := claimer.Claim(ctx, candidates)
	if err != nil {
		return err
	}
	s.sets = claimed
	return nil
}
