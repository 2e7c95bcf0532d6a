package captmachinedeployment

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/machines"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// available waits until enough machines are available.
func (r *Reconciler) available(_ context.Context, s *scope) error {
	available, required := *s.deployment.Status.AvailableReplicas, s.replicas()-s.limits.Unavailable
	if available < required {
		return fault.Wait(infrav1.NotEnoughMachinesReason, "%d machines are available, at least %d are required", available, required)
	}
	return nil
}

// progress evaluates how far the rollout is, and whether it makes progress.
func (r *Reconciler) progress(_ context.Context, s *scope) error {
	if s.blocked != nil {
		return s.blocked
	}
	d := s.deployment
	rollout := s.rollout()
	totals := s.totals()
	complete := rollout.Complete()
	p := machines.Progress{
		Previous: s.previous, Current: totals, Complete: complete,
		PreviousReason: s.previousReason, TemplateChanged: s.templateChanged(), Paused: s.paused(),
		OnlyDeletion: rollout.Strategy == infrav1.OnDeleteStrategy && !complete && totals.Replicas == s.replicas() && totals.Available == totals.Replicas,
		LastProgress: d.Status.LastProgressAt.Time, Deadline: machines.Deadline(d.Spec.ProgressDeadlineSeconds), Now: s.now,
	}
	state, last := p.Evaluate()
	d.Status.LastProgressAt = metav1.NewTime(last)
	s.state = state
	switch state {
	case machines.RollingOut:
		s.untilDeadline = p.Remaining(last)
	case machines.DeadlineExceeded:
		return fault.Stall(infrav1.ProgressDeadlineExceededReason, "The rollout has made no progress for more than %s: %s", p.Deadline, s.summary())
	case machines.Paused:
		return fault.Stall(infrav1.DeploymentPausedReason, "spec.paused is true: changes of the template are not rolled out, changes of replicas are")
	case machines.RolledOut, machines.WaitingForDeletion:
	}
	return nil
}

// templateChanged reports whether the template is another one than before: its
// set has a new revision, or does not exist yet.
func (s *scope) templateChanged() bool {
	return s.rolledBack || s.current() == nil && !s.scaleOnly() || s.deployment.Status.Revision != s.previousRevision
}

func progressReason(s *scope) string {
	switch s.state {
	case machines.RolledOut:
		return infrav1.RolloutCompleteReason
	case machines.WaitingForDeletion:
		return infrav1.WaitingForDeletionReason
	default:
		return infrav1.RollingOutReason
	}
}

func progressMessage(s *scope) string {
	switch s.state {
	case machines.RolledOut:
		return ""
	case machines.WaitingForDeletion:
		return fmt.Sprintf("%s; delete the others to replace them", s.summary())
	}
	if s.waitingFor != "" {
		return fmt.Sprintf("%s; %s", s.summary(), s.waitingFor)
	}
	return s.summary()
}

// summary returns how many machines are up to date and available.
func (s *scope) summary() string {
	t := s.totals()
	return fmt.Sprintf("%d of %d machines are up to date, %d of %d are available", t.Updated, s.replicas(), t.Available, t.Replicas)
}

// untilDeadline returns when the progress of the rollout is checked again.
func untilDeadline(s *scope) time.Duration { return s.untilDeadline }

// complete waits until the rollout is complete. It has no condition of its own
// and makes Ready depend on the rollout.
func (r *Reconciler) complete(_ context.Context, s *scope) error {
	switch {
	case s.blocked != nil:
		return s.blocked
	case s.state == machines.RolledOut, s.state == machines.Paused && s.rollout().Complete():
		return nil
	case s.state == machines.DeadlineExceeded:
		return fault.Stall(infrav1.ProgressDeadlineExceededReason, "The rollout makes no progress: %s", s.summary())
	case s.state == machines.Paused:
		return fault.Stall(infrav1.DeploymentPausedReason, "The rollout is paused: %s", s.summary())
	}
	return fault.Wait(progressReason(s), "%s", progressMessage(s))
}
