package workspacetemplateapply

import (
	"context"
	"sync"
)

// turn is what one caller has at a time. The zero value is ready to use.
type turn struct {
	create sync.Once
	taken  chan struct{}
}

// begin waits for the turn, or until the context is done.
func (t *turn) begin(ctx context.Context) error {
	select {
	case t.channel() <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end gives the turn to the next caller.
func (t *turn) end() { <-t.channel() }

func (t *turn) channel() chan struct{} {
	t.create.Do(func() { t.taken = make(chan struct{}, 1) })
	return t.taken
}
