package workspacetemplateapply

import (
	"context"
	"errors"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/template"
)

// inputs resolves what a run would apply. Nothing runs while module, variables
// and placeholders do not fit together.
func (r *Reconciler) inputs(_ context.Context, s *scope) error {
	inputs, err := template.Resolve(s.sources)
	var problem *template.Problem
	var missing *template.MissingKeyError
	switch {
	case errors.As(err, &problem):
		return fault.Stall(problem.Reason, "%s", problem.Message)
	case errors.As(err, &missing):
		reason := infrav1.WaitingForConfigMapReason
		if missing.Secret {
			reason = infrav1.WaitingForSecretReason
		}
		return fault.Wait(reason, "%s", missing.Error())
	case err != nil:
		return err
	}
	s.inputs = inputs
	return nil
}
