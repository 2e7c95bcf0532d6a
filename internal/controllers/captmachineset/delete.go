package captmachineset

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// deleteMachines deletes the set's machines and waits until they are gone. Who
// deletes the set with --cascade=orphan keeps them: the garbage collector takes
// the owner references away.
func (r *Reconciler) deleteMachines(ctx context.Context, s *scope) error {
	if controllerutil.ContainsFinalizer(s.set, metav1.FinalizerOrphanDependents) {
		return nil
	}
	if err := r.look(ctx, s); err != nil {
		return err
	}
	if len(s.claimed) == 0 {
		// The cache may not show yet what was made last.
		if err := r.lookOwned(ctx, s); err != nil {
			return err
		}
	}
	var errs []error
	for _, m := range s.claimed {
		if m.DeletionTimestamp.IsZero() {
			errs = append(errs, r.discard(ctx, m))
		}
	}
	s.count()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if left := s.names(func(*infrav1.CAPTMachine) bool { return true }); len(left) > 0 {
		return fault.Wait(infrav1.DeletingReason, "Waiting for %d machines to be deleted: %s", len(left), listed(left))
	}
	return nil
}
