package workspacetemplateapply

import (
	"context"
	"errors"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/template"
)

// inputs resolves the inputs of the next run. No run starts while module,
// variables and placeholders do not match.
func (r *Reconciler) inputs(_ context.Context, s *scope) error {
	inputs, err := template.Resolve(s.sources)
	if err != nil {
		return inputsFault(err)
	}
	pod := s.podSettings()
	if err := r.Limits.Check(inputs.Request.Module, pod.Image, pod.ServiceAccountName); err != nil {
		return inputsFault(err)
	}
	s.inputs = inputs
	return nil
}

// inputsFault turns an error of the inputs into a fault: a problem stalls until
// the inputs change, a missing key waits for its Secret or ConfigMap.
func inputsFault(err error) error {
	if problem, ok := errors.AsType[*template.Problem](err); ok {
		return fault.Stall(problem.Reason, "%s", problem.Message)
	}
	if missing, ok := errors.AsType[*template.MissingKeyError](err); ok {
		if missing.Secret {
			return fault.Wait(infrav1.WaitingForSecretReason, "%s", missing.Error())
		}
		return fault.Wait(infrav1.WaitingForConfigMapReason, "%s", missing.Error())
	}
	return err
}
