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
	has, least := *s.deployment.Status.AvailableReplicas, s.replicas()-s.limits.Unavailable
	if has < least {
		return fault.Wait(infrav1.NotEnoughMachinesReason, "%d machines are available, and at least %d have to be", has, least)
	}
	return nil
}

// progress tells how far the rollout has come, and whether it stands still.
func (r *Reconciler) progress(_ context.Context, s *scope) error {
	if s.withheld != nil {
		return s.withheld
	}
	d := s.deployment
	rollout := s.rollout()
	is := s.numbers()
	complete := rollout.Complete()
	p := machines.Progress{
		Was: s.was, Is: is, Complete: complete,
		Reason: s.wasReason, New: s.begins(), Paused: s.paused(),
		Patient: rollout.Strategy == infrav1.OnDeleteStrategy && !complete && is.Replicas == s.replicas() && is.Available == is.Replicas,
		Last:    d.Status.LastProgressAt.Time, Deadline: machines.Deadline(d.Spec.ProgressDeadlineSeconds), Now: s.now,
	}
	state, last := p.Judge()
	d.Status.LastProgressAt = metav1.NewTime(last)
	s.state = state
	switch state {
	case machines.RollingOut:
		s.remaining = p.Remaining(last)
	case machines.StoodStill:
		return fault.Stall(infrav1.ProgressDeadlineExceededReason, "Nothing has advanced for more than %s: %s", p.Deadline, s.numbersText())
	case machines.Paused:
		return fault.Stall(infrav1.DeploymentPausedReason, "Nothing is rolled out while spec.paused is true; scaling goes on")
	case machines.RolledOut, machines.Patient:
	}
	return nil
}

// begins tells whether the template became another one: it got a revision of its
// own, or is about to.
func (s *scope) begins() bool {
	return s.turned || s.current() == nil && !s.held() || s.deployment.Status.Revision != s.wasRevision
}

func progressReason(s *scope) string {
	switch s.state {
	case machines.RolledOut:
		return infrav1.RolloutCompleteReason
	case machines.Patient:
		return infrav1.WaitingForDeletionReason
	default:
		return infrav1.RollingOutReason
	}
}

func progressMessage(s *scope) string {
	switch s.state {
	case machines.RolledOut:
		return ""
	case machines.Patient:
		return fmt.Sprintf("%s; delete the others to replace them", s.numbersText())
	}
	if s.underway != "" {
		return fmt.Sprintf("%s; %s", s.numbersText(), s.underway)
	}
	return s.numbersText()
}

// numbersText tells how many machines are of the present template.
func (s *scope) numbersText() string {
	n := s.numbers()
	return fmt.Sprintf("%d of %d machines are up to date, %d of %d are available", n.Updated, s.replicas(), n.Available, n.Replicas)
}

// untilDeadline is when to see whether the rollout stands still.
func untilDeadline(s *scope) time.Duration { return s.remaining }

// complete waits until everything is rolled out, so that Ready says so.
func (r *Reconciler) complete(_ context.Context, s *scope) error {
	switch {
	case s.withheld != nil:
		return s.withheld
	case s.state == machines.RolledOut, s.state == machines.Paused && s.rollout().Complete():
		return nil
	case s.state == machines.StoodStill:
		return fault.Stall(infrav1.ProgressDeadlineExceededReason, "The rollout stands still: %s", s.numbersText())
	case s.state == machines.Paused:
		return fault.Stall(infrav1.DeploymentPausedReason, "The rollout is paused: %s", s.numbersText())
	}
	return fault.Wait(progressReason(s), "%s", progressMessage(s))
}
