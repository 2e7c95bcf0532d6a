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
	s.redactStatus()
	return nil
}

// redactStatus masks the secrets of the inputs in what a run reported. The runner has
// masked them, but the report is the word of the run.
func (s *scope) redactStatus() {
	status := &s.apply.Status
	if status.Failure == nil && !s.statusChanged {
		return
	}
	redactor := s.inputs.Request.Redactor()
	if status.Failure != nil {
		status.Failure.Message = redactor.Replace(status.Failure.Message)
	}
	if status.Drift != nil {
		status.Drift.Failure = redactor.Replace(status.Drift.Failure)
	}
	for i := range status.History {
		status.History[i].Summary = redactor.Replace(status.History[i].Summary)
	}
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
