package machines

import (
	"math"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestJudge(t *testing.T) {
	const deadline = 10 * time.Minute
	recently, longAgo := noon.Add(-time.Minute), noon.Add(-time.Hour)
	same := Numbers{Replicas: 4, Updated: 1, Ready: 3, Available: 3}
	tests := []struct {
		name string
		p    Progress
		want State
		last time.Time
	}{
		{name: "at the beginning", p: Progress{}, want: RollingOut, last: noon},
		{name: "a new template", p: Progress{New: true, Last: longAgo, Reason: infrav1.RolloutCompleteReason}, want: RollingOut, last: noon},
		{
			name: "a new template after one that stood still",
			p:    Progress{New: true, Last: longAgo, Reason: infrav1.ProgressDeadlineExceededReason}, want: RollingOut, last: noon,
		},
		{name: "no progress, but time", p: Progress{Last: recently, Reason: infrav1.RollingOutReason, Was: same, Is: same}, want: RollingOut, last: recently},
		{name: "no progress for too long", p: Progress{Last: longAgo, Reason: infrav1.RollingOutReason, Was: same, Is: same}, want: StoodStill, last: longAgo},
		{
			name: "and still none", p: Progress{Last: longAgo, Reason: infrav1.ProgressDeadlineExceededReason, Was: same, Is: same},
			want: StoodStill, last: longAgo,
		},
		{
			name: "though the deadline was prolonged",
			p:    Progress{Last: recently, Reason: infrav1.ProgressDeadlineExceededReason, Was: same, Is: same}, want: StoodStill, last: recently,
		},
		{
			name: "a machine more", p: Progress{Last: longAgo, Reason: infrav1.RollingOutReason, Was: same, Is: Numbers{5, 2, 3, 3}},
			want: RollingOut, last: noon,
		},
		{
			name: "progress after standing still",
			p:    Progress{Last: longAgo, Reason: infrav1.ProgressDeadlineExceededReason, Was: same, Is: Numbers{4, 1, 4, 3}}, want: RollingOut, last: noon,
		},
		{name: "available", p: Progress{Last: longAgo, Reason: infrav1.RollingOutReason, Was: same, Is: Numbers{4, 1, 3, 4}}, want: RollingOut, last: noon},
		{name: "an old machine less", p: Progress{Last: longAgo, Reason: infrav1.RollingOutReason, Was: same, Is: Numbers{3, 1, 2, 2}}, want: RollingOut, last: noon},
		{name: "a failure is no progress", p: Progress{Last: longAgo, Reason: infrav1.RollingOutReason, Was: same, Is: Numbers{4, 1, 2, 2}}, want: StoodStill, last: longAgo},
		{name: "complete", p: Progress{Complete: true, Last: recently, Reason: infrav1.RollingOutReason}, want: RolledOut, last: noon},
		{name: "complete again says nothing new", p: Progress{Complete: true, Last: longAgo, Reason: infrav1.RolloutCompleteReason}, want: RolledOut, last: longAgo},
		{name: "complete at last", p: Progress{Complete: true, Last: longAgo, Reason: infrav1.ProgressDeadlineExceededReason}, want: RolledOut, last: noon},
		{
			name: "what was complete does not stand still when a machine fails",
			p:    Progress{Last: longAgo, Reason: infrav1.RolloutCompleteReason, Is: Numbers{3, 3, 2, 2}}, want: RolledOut, last: longAgo,
		},
		{
			name: "old machines out of nowhere begin a rollout",
			p:    Progress{Last: longAgo, Reason: infrav1.RolloutCompleteReason, Was: Numbers{3, 3, 3, 3}, Is: Numbers{4, 3, 3, 3}}, want: RollingOut, last: noon,
		},
		{name: "paused", p: Progress{Paused: true, Last: longAgo, Reason: infrav1.RollingOutReason}, want: Paused, last: longAgo},
		{
			name: "paused while it stands still", p: Progress{Paused: true, Last: longAgo, Reason: infrav1.ProgressDeadlineExceededReason},
			want: StoodStill, last: longAgo,
		},
		{name: "paused when complete", p: Progress{Paused: true, Complete: true, Last: longAgo, Reason: infrav1.RolloutCompleteReason}, want: Paused, last: longAgo},
		{name: "resumed", p: Progress{Last: longAgo, Reason: infrav1.DeploymentPausedReason}, want: RollingOut, last: noon},
		{name: "after a wrong revision", p: Progress{Last: longAgo, Reason: infrav1.RevisionNotFoundReason}, want: RollingOut, last: noon},
		{name: "patient", p: Progress{Patient: true, Last: longAgo, Reason: infrav1.RollingOutReason}, want: Patient, last: noon},
		{name: "still patient", p: Progress{Patient: true, Last: longAgo, Reason: infrav1.WaitingForDeletionReason, Was: same, Is: same}, want: Patient, last: longAgo},
		{name: "somebody deleted one", p: Progress{Last: longAgo, Reason: infrav1.WaitingForDeletionReason, Was: same, Is: same}, want: RollingOut, last: noon},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			tt.p.Deadline, tt.p.Now = deadline, noon
			state, last := tt.p.Judge()
			g.Expect(state).To(Equal(tt.want))
			g.Expect(last).To(Equal(tt.last))

			// At rest the same is judged again, and nothing is written.
			reasons := map[State]string{
				RollingOut: infrav1.RollingOutReason, RolledOut: infrav1.RolloutCompleteReason, StoodStill: infrav1.ProgressDeadlineExceededReason,
				Patient: infrav1.WaitingForDeletionReason, Paused: infrav1.DeploymentPausedReason,
			}
			tt.p.Reason, tt.p.Last, tt.p.New, tt.p.Was, tt.p.Now = reasons[state], last, false, tt.p.Is, noon.Add(time.Second)
			again, since := tt.p.Judge()
			g.Expect(again).To(Equal(state))
			g.Expect(since).To(Equal(last))
		})
	}
}

func TestDeadline_noneIsForEver(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Deadline(nil)).To(BeZero())
	g.Expect(Deadline(new(int32(math.MaxInt32)))).To(BeZero())
	g.Expect(Deadline(new(int32(60)))).To(Equal(time.Minute))
	p := Progress{Last: noon.Add(-100 * time.Hour), Reason: infrav1.RollingOutReason, Now: noon}
	state, last := p.Judge()
	g.Expect(state).To(Equal(RollingOut))
	g.Expect(p.Remaining(last)).To(BeZero())
	p.Deadline = time.Minute
	g.Expect(p.Remaining(noon.Add(-20 * time.Second))).To(Equal(41 * time.Second))
	g.Expect(p.Remaining(noon.Add(-time.Hour))).To(Equal(time.Second))
}
