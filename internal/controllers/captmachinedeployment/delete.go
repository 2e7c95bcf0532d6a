package captmachinedeployment

import (
	"context"
	"errors"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// deleteSets deletes the deployment's sets, which delete their machines, and
// waits until they no longer exist. If the deployment is deleted with
// --cascade=orphan, the sets stay and the garbage collector removes their owner
// references.
func (r *Reconciler) deleteSets(ctx context.Context, s *scope) error {
	if controllerutil.ContainsFinalizer(s.deployment, metav1.FinalizerOrphanDependents) {
		return nil
	}
	if err := r.read(ctx, s); err != nil {
		return err
	}
	if len(s.sets) == 0 {
		// The cache may not show sets that were just created. Their labels do not
		// matter: a deployment that is being deleted keeps all that it controls.
		var err error
		if s.sets, err = s.claimer.Live(ctx); err != nil {
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
			s.machineCount(), len(left), strings.Join(left, ", "))
	}
	return nil
}

// machineCount returns the number of machines, including those that are being
// deleted.
func (s *scope) machineCount() int {
	n := 0
	for _, set := range s.sets {
		n += len(s.machines[set.UID])
	}
	return n
}
