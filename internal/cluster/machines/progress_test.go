package machines

import (
	"math"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestEvaluate(t *testing.T) {
	const deadline = 10 * time.Minute
	recently, longAgo := noon.Add(-time.Minute), noon.Add(-time.Hour)
	same := Totals{Replicas: 4, Updated: 1, Ready: 3, Available: 3}
	tests := []struct {
		name string
		p    Progress
		want State
		last time.Time
	}{
		{name: "start", p: Progress{}, want: RollingOut, last: noon},
		{name: "new template", p: Progress{TemplateChanged: true, LastProgress: longAgo, PreviousReason: infrav1.RolloutCompleteReason}, want: RollingOut, last: noon},
		{
			name: "new template after an exceeded deadline",
			p:    Progress{TemplateChanged: true, LastProgress: longAgo, PreviousReason: infrav1.ProgressDeadlineExceededReason}, want: RollingOut, last: noon,
		},
		{name: "no progress before the deadline", p: Progress{LastProgress: recently, PreviousReason: infrav1.RollingOutReason, Previous: same, Current: same}, want: RollingOut, last: recently},
		{name: "no progress after the deadline", p: Progress{LastProgress: longAgo, PreviousReason: infrav1.RollingOutReason, Previous: same, Current: same}, want: DeadlineExceeded, last: longAgo},
		{
			name: "still no progress", p: Progress{LastProgress: longAgo, PreviousReason: infrav1.ProgressDeadlineExceededReason, Previous: same, Current: same},
			want: DeadlineExceeded, last: longAgo,
		},
		{
			name: "still no progress with a longer deadline",
			p:    Progress{LastProgress: recently, PreviousReason: infrav1.ProgressDeadlineExceededReason, Previous: same, Current: same}, want: DeadlineExceeded, last: recently,
		},
		{
			name: "created machine", p: Progress{LastProgress: longAgo, PreviousReason: infrav1.RollingOutReason, Previous: same, Current: Totals{5, 2, 3, 3}},
			want: RollingOut, last: noon,
		},
		{
			name: "progress after an exceeded deadline",
			p:    Progress{LastProgress: longAgo, PreviousReason: infrav1.ProgressDeadlineExceededReason, Previous: same, Current: Totals{4, 1, 4, 3}}, want: RollingOut, last: noon,
		},
		{name: "available machine", p: Progress{LastProgress: longAgo, PreviousReason: infrav1.RollingOutReason, Previous: same, Current: Totals{4, 1, 3, 4}}, want: RollingOut, last: noon},
		{name: "deleted old machine", p: Progress{LastProgress: longAgo, PreviousReason: infrav1.RollingOutReason, Previous: same, Current: Totals{3, 1, 2, 2}}, want: RollingOut, last: noon},
		{name: "failure is not progress", p: Progress{LastProgress: longAgo, PreviousReason: infrav1.RollingOutReason, Previous: same, Current: Totals{4, 1, 2, 2}}, want: DeadlineExceeded, last: longAgo},
		{name: "complete", p: Progress{Complete: true, LastProgress: recently, PreviousReason: infrav1.RollingOutReason}, want: RolledOut, last: noon},
		{name: "complete as before", p: Progress{Complete: true, LastProgress: longAgo, PreviousReason: infrav1.RolloutCompleteReason}, want: RolledOut, last: longAgo},
		{name: "complete after an exceeded deadline", p: Progress{Complete: true, LastProgress: longAgo, PreviousReason: infrav1.ProgressDeadlineExceededReason}, want: RolledOut, last: noon},
		{
			name: "failed machine after completion",
			p:    Progress{LastProgress: longAgo, PreviousReason: infrav1.RolloutCompleteReason, Current: Totals{3, 3, 2, 2}}, want: RolledOut, last: longAgo,
		},
		{
			name: "adopted old machines start a rollout",
			p:    Progress{LastProgress: longAgo, PreviousReason: infrav1.RolloutCompleteReason, Previous: Totals{3, 3, 3, 3}, Current: Totals{4, 3, 3, 3}}, want: RollingOut, last: noon,
		},
		{name: "paused", p: Progress{Paused: true, LastProgress: longAgo, PreviousReason: infrav1.RollingOutReason}, want: Paused, last: longAgo},
		{
			name: "paused after an exceeded deadline", p: Progress{Paused: true, LastProgress: longAgo, PreviousReason: infrav1.ProgressDeadlineExceededReason},
			want: DeadlineExceeded, last: longAgo,
		},
		{name: "paused when complete", p: Progress{Paused: true, Complete: true, LastProgress: longAgo, PreviousReason: infrav1.RolloutCompleteReason}, want: Paused, last: longAgo},
		{name: "resumed", p: Progress{LastProgress: longAgo, PreviousReason: infrav1.DeploymentPausedReason}, want: RollingOut, last: noon},
		{name: "after an unknown revision", p: Progress{LastProgress: longAgo, PreviousReason: infrav1.RevisionNotFoundReason}, want: RollingOut, last: noon},
		{name: "waiting for deletion", p: Progress{OnlyDeletion: true, LastProgress: longAgo, PreviousReason: infrav1.RollingOutReason}, want: WaitingForDeletion, last: noon},
		{name: "still waiting for deletion", p: Progress{OnlyDeletion: true, LastProgress: longAgo, PreviousReason: infrav1.WaitingForDeletionReason, Previous: same, Current: same}, want: WaitingForDeletion, last: longAgo},
		{name: "user deleted a machine", p: Progress{LastProgress: longAgo, PreviousReason: infrav1.WaitingForDeletionReason, Previous: same, Current: same}, want: RollingOut, last: noon},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			tt.p.Deadline, tt.p.Now = deadline, noon
			state, last := tt.p.Evaluate()
			g.Expect(state).To(Equal(tt.want))
			g.Expect(last).To(Equal(tt.last))

			// At rest the result stays the same, so nothing is written.
			reasons := map[State]string{
				RollingOut: infrav1.RollingOutReason, RolledOut: infrav1.RolloutCompleteReason, DeadlineExceeded: infrav1.ProgressDeadlineExceededReason,
				WaitingForDeletion: infrav1.WaitingForDeletionReason, Paused: infrav1.DeploymentPausedReason,
			}
			tt.p.PreviousReason, tt.p.LastProgress, tt.p.TemplateChanged, tt.p.Previous, tt.p.Now = reasons[state], last, false, tt.p.Current, noon.Add(time.Second)
			repeated, since := tt.p.Evaluate()
			g.Expect(repeated).To(Equal(state))
			g.Expect(since).To(Equal(last))
		})
	}
}

func TestDeadline_zeroMeansNone(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Deadline(nil)).To(BeZero())
	g.Expect(Deadline(new(int32(math.MaxInt32)))).To(BeZero())
	g.Expect(Deadline(new(int32(60)))).To(Equal(time.Minute))
	p := Progress{LastProgress: noon.Add(-100 * time.Hour), PreviousReason: infrav1.RollingOutReason, Now: noon}
	state, last := p.Evaluate()
	g.Expect(state).To(Equal(RollingOut))
	g.Expect(p.Remaining(last)).To(BeZero())
	p.Deadline = time.Minute
	g.Expect(p.Remaining(noon.Add(-20 * time.Second))).To(Equal(41 * time.Second))
	g.Expect(p.Remaining(noon.Add(-time.Hour))).To(Equal(time.Second))
}
