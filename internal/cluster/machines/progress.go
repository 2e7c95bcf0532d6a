package machines

import (
	"math"
	"time"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// State is the state of a rollout.
type State int

// The states of a rollout.
const (
	// RollingOut means that machines are being replaced, or created for the first
	// time.
	RollingOut State = iota
	// RolledOut means that all machines have the current template.
	RolledOut
	// DeadlineExceeded means that there was no progress until the deadline.
	DeadlineExceeded
	// WaitingForDeletion means that the user has to delete the machines with old
	// templates.
	WaitingForDeletion
	// Paused means that the rollout is paused.
	Paused
)

// Totals are the numbers of machines of a deployment.
type Totals struct {
	Replicas, Updated, Ready, Available int32
}

// Progress is the input that the state of a rollout is evaluated from.
type Progress struct {
	Previous, Current Totals
	// Complete reports whether all desired machines are available, have the
	// current template, and are the only ones.
	Complete bool
	// PreviousReason is the previous reason of the condition Progressing.
	PreviousReason string
	// TemplateChanged reports whether the template is another one than before.
	TemplateChanged bool
	// Paused reports whether the deployment is paused.
	Paused bool
	// OnlyDeletion reports whether the rollout waits only for the user to delete
	// machines.
	OnlyDeletion bool
	// LastProgress is when the rollout last made progress.
	LastProgress time.Time
	// Deadline is how long the rollout may be without progress. Zero means no
	// deadline.
	Deadline time.Duration
	Now      time.Time
}

// Evaluate returns the state of a rollout and when it last made progress.
//
// A completed rollout stays completed until the template changes: a machine that
// fails or is added does not start a rollout. A rollout that starts, or that is
// resumed after a pause, has the whole deadline left. A rollout that exceeded its
// deadline continues as soon as it makes progress.
func (p Progress) Evaluate() (State, time.Time) {
	completed := p.PreviousReason == infrav1.RolloutCompleteReason && !p.TemplateChanged && p.Current.Replicas == p.Current.Updated
	exceeded := p.PreviousReason == infrav1.ProgressDeadlineExceededReason && !p.TemplateChanged
	running := p.PreviousReason == infrav1.RollingOutReason && !p.TemplateChanged && !p.LastProgress.IsZero()
	waiting := p.PreviousReason == infrav1.WaitingForDeletionReason && !p.TemplateChanged
	switch {
	case p.Paused && exceeded && !p.advanced():
		return DeadlineExceeded, p.LastProgress
	case p.Paused:
		return Paused, p.LastProgress
	case p.Complete && !completed:
		return RolledOut, p.Now
	case p.Complete, completed:
		return RolledOut, p.LastProgress
	case p.OnlyDeletion && waiting && !p.advanced():
		return WaitingForDeletion, p.LastProgress
	case p.OnlyDeletion:
		return WaitingForDeletion, p.Now
	case !running && !exceeded, p.advanced():
		return RollingOut, p.Now
	case exceeded, p.Deadline > 0 && p.Now.Sub(p.LastProgress) > p.Deadline:
		return DeadlineExceeded, p.LastProgress
	}
	return RollingOut, p.LastProgress
}

// advanced reports whether machines were created, became ready or available, or
// old machines were deleted.
func (p Progress) advanced() bool {
	return p.Current.Updated > p.Previous.Updated || p.Current.Ready > p.Previous.Ready || p.Current.Available > p.Previous.Available ||
		p.Current.Replicas-p.Current.Updated < p.Previous.Replicas-p.Previous.Updated
}

// Remaining returns the time until the deadline of a rollout that last made
// progress at last, or zero if it has no deadline.
func (p Progress) Remaining(last time.Time) time.Duration {
	if p.Deadline == 0 {
		return 0
	}
	// The API stores times with a precision of one second.
	return max(last.Add(p.Deadline).Sub(p.Now), 0) + time.Second
}

// Deadline returns the progress deadline of an API field. Zero means no deadline.
func Deadline(seconds *int32) time.Duration {
	if seconds == nil || *seconds == math.MaxInt32 {
		return 0
	}
	return Seconds(seconds)
}
