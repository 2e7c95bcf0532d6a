package captaddon

import (
	"context"
	"errors"
	"fmt"
	"strings"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// uninstall takes the add-on back from all clusters.
func (r *Reconciler) uninstall(ctx context.Context, s *scope) error {
	var errs []error
	for _, st := range s.standings {
		if err := r.leave(ctx, s, st); err != nil {
			errs = append(errs, fmt.Errorf("cluster %s: %w", st.name, err))
		}
	}
	r.conclude(s)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	var waiting []string
	for _, st := range s.standings {
		if !st.gone && len(waiting) < mostNamed {
			waiting = append(waiting, st.name+": "+st.is.Message)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	if s.again > 0 {
		return fault.WaitFor(s.again, addonsv1.RemovingReason, "%s", strings.Join(waiting, "; "))
	}
	return fault.Wait(addonsv1.RemovingReason, "%s", strings.Join(waiting, "; "))
}

// forget drops what is remembered of the add-on.
func (r *Reconciler) forget(_ context.Context, s *scope) error {
	r.drop(s, "")
	uncount(s)
	return nil
}
