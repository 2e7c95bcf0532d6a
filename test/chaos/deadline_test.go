package main

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

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
