package migrate

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestPoll_endsWhenNothingIsPending(t *testing.T) {
	g := NewWithT(t)
	results := []string{"first", "second", ""}
	g.Expect(poll(t.Context(), func() (string, error) {
		next := results[0]
		results = results[1:]
		return next, nil
	})).To(Succeed())
	g.Expect(results).To(BeEmpty())
	g.Expect(poll(t.Context(), func() (string, error) { return "", errTest })).To(MatchError(errTest))
}

func TestPoll_reportsWhatIsPendingAtTheDeadline(t *testing.T) {
	cause := errors.New("not complete after 1s")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, cause)
	defer cancel()
	err := poll(ctx, func() (string, error) { return "waiting for Flux", nil })
	NewWithT(t).Expect(err).To(MatchError(cause))
	NewWithT(t).Expect(err).To(MatchError("not complete after 1s: waiting for Flux"))
}

func TestReport_nextStage(t *testing.T) {
	g := NewWithT(t)
	r := &Report{Stages: []StagePlan{{Name: StageFlux, Done: true}, {Name: StageForget, Text: "forget"}, {Name: StageAdopt, Done: true}}}
	g.Expect(r.Next()).To(Equal(StageForget), "the first stage that is not done")
	g.Expect(r.text(r.Next())).To(Equal("forget"))
	g.Expect(r.text(StageDone)).To(BeEmpty())
	g.Expect((&Report{}).Next()).To(Equal(StageDone))
}
