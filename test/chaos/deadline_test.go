package main

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/procfs"
)

func TestDeadline_isExtendedByBusyTime(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	now, busy := time.Unix(0, 0), time.Hour
	d := newDeadline(3*time.Minute, 6*time.Minute, func() time.Time { return now }, func() time.Duration { return busy })
	now = now.Add(3 * time.Minute)
	g.Expect(d.passed()).To(BeFalse())
	now = now.Add(time.Second)
	g.Expect(d.passed()).To(BeTrue(), "the machine was idle")
	busy += 2 * time.Second
	g.Expect(d.passed()).To(BeFalse())
	g.Expect(d.String()).To(Equal("3m0s and the 2s in which the machine was busy"))
	busy += time.Hour
	now = now.Add(6 * time.Minute)
	g.Expect(d.passed()).To(BeTrue(), "the extension is bounded")
}

func TestIsBusy(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	before := procfs.CPUStat{User: 10, Idle: 100}
	g.Expect(isBusy(before, procfs.CPUStat{User: 12, Idle: 100})).To(BeTrue())
	g.Expect(isBusy(before, procfs.CPUStat{User: 11, Idle: 101})).To(BeFalse())
	g.Expect(isBusy(before, procfs.CPUStat{User: 11, Idle: 100, Iowait: 1})).To(BeFalse())
	g.Expect(isBusy(before, before)).To(BeFalse())
}

func TestPoll_endsAtItsDeadline(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cause := errors.New("not ready")
	err := poll(t.Context(), time.Millisecond, func(context.Context) error { return cause })
	g.Expect(errors.Is(err, errTimeout) && errors.Is(err, cause)).To(BeTrue(), "%v", err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = poll(ctx, time.Hour, func(context.Context) error { return cause })
	g.Expect(errors.Is(err, context.Canceled)).To(BeTrue(), "%v", err)
}
