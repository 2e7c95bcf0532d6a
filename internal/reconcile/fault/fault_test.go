package fault_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/reconcile/fault"
)

func TestAsWaitingAndAsStalled(t *testing.T) {
	const (
		neither = "neither"
		waiting = "waiting"
		stalled = "stalled"
	)
	tests := []struct {
		name    string
		err     error
		want    string
		reason  string
		message string
		after   time.Duration
	}{
		{name: "nil", err: nil, want: neither},
		{name: "another error", err: io.ErrUnexpectedEOF, want: neither},
		{
			name: "a wait", err: fault.Wait("RunInProgress", "%d of %d", 3, 9),
			want: waiting, reason: "RunInProgress", message: "3 of 9",
		},
		{
			name: "a wait with a delay", err: fault.WaitFor(time.Minute, "Drift", "next check"),
			want: waiting, reason: "Drift", message: "next check", after: time.Minute,
		},
		{
			name: "a negative delay becomes a short one",
			err:  fault.WaitFor(-time.Hour, "Expired", "token"),
			want: waiting, reason: "Expired", message: "token", after: time.Second,
		},
		{
			name: "a zero delay becomes a short one",
			err:  fault.WaitFor(0, "Expired", "token"),
			want: waiting, reason: "Expired", message: "token", after: time.Second,
		},
		{
			name: "a stall", err: fault.Stall("RunFailed", "%s", "denied"),
			want: stalled, reason: "RunFailed", message: "denied",
		},
		{
			name: "a wrapped wait keeps its own message",
			err:  fmt.Errorf("creating network: %w", fault.Wait("R", "m")),
			want: waiting, reason: "R", message: "m",
		},
		{
			name: "a joined stall", err: errors.Join(io.EOF, fault.Stall("R", "m")),
			want: stalled, reason: "R", message: "m",
		},
		{
			name: "the outer wait wins over its cause",
			err:  fault.Wait("Outer", "because %w", fault.Stall("Inner", "m")),
			want: waiting, reason: "Outer", message: "because Inner: m",
		},
		{
			name: "the outer stall wins over its cause",
			err:  fmt.Errorf("x: %w", fault.Stall("Outer", "because %w", fault.Wait("Inner", "m"))),
			want: stalled, reason: "Outer", message: "because Inner: m",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)

			w, isWaiting := fault.AsWaiting(tt.err)
			s, isStalled := fault.AsStalled(tt.err)

			g.Expect(isWaiting).To(Equal(tt.want == waiting))
			g.Expect(isStalled).To(Equal(tt.want == stalled))
			g.Expect(fault.Is(tt.err)).To(Equal(tt.want != neither))
			if isWaiting {
				g.Expect(w.Reason).To(Equal(tt.reason))
				g.Expect(w.Message()).To(Equal(tt.message))
				g.Expect(w.RetryAfter).To(Equal(tt.after))
			}
			if isStalled {
				g.Expect(s.Reason).To(Equal(tt.reason))
				g.Expect(s.Message()).To(Equal(tt.message))
			}
		})
	}
}

func TestFaults_keepTheirCause(t *testing.T) {
	g := NewWithT(t)
	for _, err := range []error{
		fault.Wait("R", "reading: %w", io.ErrUnexpectedEOF),
		fault.WaitFor(time.Second, "R", "reading: %w", io.ErrUnexpectedEOF),
		fault.Stall("R", "reading: %w", io.ErrUnexpectedEOF),
		fault.Stall("R", "%w and %w", io.EOF, io.ErrUnexpectedEOF),
	} {
		g.Expect(err).To(MatchError(io.ErrUnexpectedEOF))
	}
}

func TestFaults_printTheirReason(t *testing.T) {
	g := NewWithT(t)
	g.Expect(fault.Wait("InProgress", "3 of 9")).To(MatchError("InProgress: 3 of 9"))
	g.Expect(fault.Stall("Failed", "denied")).To(MatchError("Failed: denied"))
}
