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
)

// read reads the deployment's sets and their machines from the cache. It adopts
// matching sets without a controller and releases those that no longer match.
func (r *Reconciler) read(ctx context.Context, s *scope) error {
	inNamespace := client.InNamespace(s.deployment.Namespace)
	var err error
	if s.sets, err = s.claimer.Cached(ctx); err != nil {
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
	var err error
	if err = s.claimer.Confirm(ctx); err != nil {
		return err
	}
	if s.sets, err = s.claimer.Live(ctx, client.MatchingLabelsSelector{Selector: s.selector}); err != nil {
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
