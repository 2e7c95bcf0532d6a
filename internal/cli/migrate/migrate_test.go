package migrate

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
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
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("not complete after 1s")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, cause)
		defer cancel()
		err := poll(ctx, func() (string, error) { return "waiting for Flux", nil })
		NewWithT(t).Expect(err).To(MatchError(cause))
		NewWithT(t).Expect(err).To(MatchError("not complete after 1s: waiting for Flux"))
	})
}

// A migration waits for minutes: a restart of an API server, or a laptop that slept, does not
// end it.
func TestPoll_survivesAnOutage(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for name, tc := range map[string]struct {
		outage time.Duration
		want   types.GomegaMatcher
	}{
		"short": {4 * time.Minute, Succeed()},
		"long":  {6 * time.Minute, MatchError(syscall.ECONNREFUSED)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin, outages := time.Now(), 0
				err := poll(t.Context(), func() (string, error) {
					switch {
					case time.Since(begin) < tc.outage:
						return "", refused
					case outages == 0:
						// A second outage has its own time.
						begin, outages = time.Now(), 1
						return "waiting for Flux", nil
					}
					return "", nil
				})
				NewWithT(t).Expect(err).To(tc.want)
			})
		})
	}
}

func TestPoll_reportsAnOutageAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("not complete after 1s")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, cause)
		defer cancel()
		err := poll(ctx, func() (string, error) { return "", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED} })
		NewWithT(t).Expect(err).To(MatchError("not complete after 1s: dial: connection refused"))
	})
}

func TestReport_nextStage(t *testing.T) {
	g := NewWithT(t)
	r := &Report{Stages: []StagePlan{{Name: StageFlux, Done: true}, {Name: StageForget, Text: "forget"}, {Name: StageAdopt, Done: true}}}
	g.Expect(r.Next()).To(Equal(StageForget), "the first stage that is not done")
	g.Expect(r.text(r.Next())).To(Equal("forget"))
	g.Expect(r.text(StageDone)).To(BeEmpty())
	g.Expect((&Report{}).Next()).To(Equal(StageDone))
}
