package sources

import (
	"errors"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/template"
)

// Inputs resolves the Inputs of the next run. No run starts while module,
// variables and placeholders do not match.
func (r *Resolver) Inputs(s *Resolved) error {
	inputs, err := template.Resolve(s.Sources)
	if err != nil {
		return InputsFault(err)
	}
	pod := s.PodSettings()
	if err := r.Limits.Check(inputs.Request.Module, pod.Image, pod.ServiceAccountName); err != nil {
		return InputsFault(err)
	}
	s.Inputs = inputs
	s.redactStatus()
	return nil
}

// redactStatus masks the secrets of the inputs in what a run reported. The runner has
// masked them, but the run wrote the report.
func (s *Resolved) redactStatus() {
	status := &s.Apply.Status
	if status.Failure == nil && !s.StatusChanged {
		return
	}
	texts := []*string{}
	if status.Failure != nil {
		texts = append(texts, &status.Failure.Message)
	}
	if status.Drift != nil {
		texts = append(texts, &status.Drift.Failure)
	}
	for i := range status.History {
		texts = append(texts, &status.History[i].Summary)
	}
	mask := func(string) string { return hiddenText }
	if s.Inputs.Request.SecretSize() <= maxRedacted {
		mask = s.Inputs.Request.Redactor().Replace
	}
	for _, text := range texts {
		if *text != "" {
			*text = mask(*text)
		}
	}
}

// maxRedacted limits the secrets that the manager masks, because a redactor of large ones
// needs more memory than the manager has.
const maxRedacted = 32 << 10

// hiddenText replaces the report of a run whose secrets are too large to be masked.
const hiddenText = "(hidden, because the secrets of the run are too large to mask them here: see captctl logs)"

// InputsFault turns an error of the inputs into a fault: a problem stalls until
// the inputs change, a missing key waits for its Secret or ConfigMap.
func InputsFault(err error) error {
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
