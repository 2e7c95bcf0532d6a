package machines

import (
	"math"
	"time"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// State is how far a rollout has come.
type State int

// The states of a rollout.
const (
	// RollingOut machines are being replaced, or made for the first time.
	RollingOut State = iota
	// RolledOut machines are all of the present template.
	RolledOut
	// StoodStill rollouts have not advanced for longer than they may.
	StoodStill
	// Patient rollouts wait for somebody to delete a machine of an old template.
	Patient
	// Paused rollouts do not go on.
	Paused
)

// Numbers are the machines of a deployment.
type Numbers struct {
	Replicas, Updated, Ready, Available int32
}

// Progress is what the state of a rollout is judged from.
type Progress struct {
	Was, Is Numbers
	// Complete is true when every wanted machine is available, of the present
	// template, and there is no other.
	Complete bool
	// Reason is the reason of the condition Progressing as it was.
	Reason string
	// New is true when the template became another one.
	New bool
	// Paused is true when nothing is to be rolled out.
	Paused bool
	// Patient is true when a person is to delete machines, and nothing else is
	// missing.
	Patient bool
	// Last is when the rollout last advanced.
	Last time.Time
	// Deadline is how long it may stand still; zero is for ever.
	Deadline time.Duration
	Now      time.Time
}

// Judge tells how far a rollout has come, and when it last advanced.
//
// What was rolled out stays so until the template changes: a machine that fails,
// or one that is added, is no rollout. A rollout that begins, or goes on after a
// pause, has all of its time before it, and one that stood still goes on as soon
// as anything advances.
func (p Progress) Judge() (State, time.Time) {
	rolledOut := p.Reason == infrav1.RolloutCompleteReason && !p.New && p.Is.Replicas == p.Is.Updated
	stoodStill := p.Reason == infrav1.ProgressDeadlineExceededReason && !p.New
	goingOn := p.Reason == infrav1.RollingOutReason && !p.New && !p.Last.IsZero()
	switch {
	case p.Paused && stoodStill && !p.advanced():
		return StoodStill, p.Last
	case p.Paused:
		return Paused, p.Last
	case p.Complete && !rolledOut:
		return RolledOut, p.Now
	case p.Complete, rolledOut:
		return RolledOut, p.Last
	case p.Patient && p.Reason == infrav1.WaitingForDeletionReason && !p.New && !p.advanced():
		return Patient, p.Last
	case p.Patient:
		return Patient, p.Now
	case !goingOn && !stoodStill, p.advanced():
		return RollingOut, p.Now
	case stoodStill, p.Deadline > 0 && p.Now.Sub(p.Last) > p.Deadline:
		return StoodStill, p.Last
	}
	return RollingOut, p.Last
}

// advanced tells whether machines were made, became ready or available, or old
// ones went.
func (p Progress) advanced() bool {
	return p.Is.Updated > p.Was.Updated || p.Is.Ready > p.Was.Ready || p.Is.Available > p.Was.Available ||
		p.Is.Replicas-p.Is.Updated < p.Was.Replicas-p.Was.Updated
}

// Remaining is how long a rollout that is rolling out may still stand where it
// is; zero is for ever.
func (p Progress) Remaining(last time.Time) time.Duration {
	if p.Deadline == 0 {
		return 0
	}
	// A second more, for times are kept in seconds.
	return max(last.Add(p.Deadline).Sub(p.Now), 0) + time.Second
}

// Deadline is how long a rollout may stand still; zero is for ever.
func Deadline(seconds *int32) time.Duration {
	if seconds == nil || *seconds == math.MaxInt32 {
		return 0
	}
	return Seconds(seconds)
}
