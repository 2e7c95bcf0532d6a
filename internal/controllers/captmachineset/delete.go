package captmachineset

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// deleteMachines deletes the set's machines and waits until they no longer
// exist. If the set is deleted with --cascade=orphan, the machines stay and the
// garbage collector removes their owner references.
func (r *Reconciler) deleteMachines(ctx context.Context, s *scope) error {
	if controllerutil.ContainsFinalizer(s.set, metav1.FinalizerOrphanDependents) {
		return nil
	}
	var err error
	if s.machines, err = s.claimer.Cached(ctx); err != nil {
		return err
	}
	if len(s.machines) == 0 {
		// The cache may not show machines that were just created. Their labels do
		// not matter: a set that is being deleted keeps all that it controls.
		if s.machines, err = s.claimer.Live(ctx); err != nil {
			return err
		}
	}
	var errs []error
	for _, m := range s.machines {
		if m.DeletionTimestamp.IsZero() {
			errs = append(errs, r.deleteMachine(ctx, m))
		}
	}
	s.updateCounts()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if left := s.names(func(*infrav1.CAPTMachine) bool { return true }); len(left) > 0 {
		return fault.Wait(infrav1.DeletingReason, "Waiting for %d machines to be deleted: %s", len(left), message.List(left, maxNames))
	}
	return nil
}
