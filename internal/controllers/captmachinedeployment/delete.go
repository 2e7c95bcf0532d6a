package captmachinedeployment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// deleteSets deletes the deployment's sets, which delete their machines, and
// waits until they are gone. Who deletes the deployment with --cascade=orphan
// keeps them: the garbage collector takes the owner references away.
func (r *Reconciler) deleteSets(ctx context.Context, s *scope) error {
	if controllerutil.ContainsFinalizer(s.deployment, metav1.FinalizerOrphanDependents) {
		return nil
	}
	if err := r.look(ctx, s); err != nil {
		return err
	}
	if len(s.sets) == 0 {
		// The cache may not show yet what was made last.
		var list infrav1.CAPTMachineSetList
		if err := r.APIReader.List(ctx, &list, client.InNamespace(s.deployment.Namespace)); err != nil {
			return fmt.Errorf("listing sets: %w", err)
		}
		if err := r.claim(ctx, s, pointers(list.Items)); err != nil {
			return err
		}
	}
	var errs []error
	var left []string
	for _, set := range s.sets {
		left = append(left, set.Name)
		if set.DeletionTimestamp.IsZero() {
			errs = append(errs, r.remove(ctx, set))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if len(left) > 0 {
		slices.Sort(left)
		return fault.Wait(infrav1.DeletingReason, "Waiting for %d machines of %d sets to be deleted: %s",
			s.machinesLeft(), len(left), strings.Join(left, ", "))
	}
	return nil
}

// machinesLeft counts machines, those on their way included.
func (s *scope) machinesLeft() int {
	n := 0
	for _, set := range s.sets {
		n += len(s.machines[set.UID])
	}
	return n
}
