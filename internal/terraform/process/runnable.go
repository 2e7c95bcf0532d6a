package process

import (
	"context"
)

// Run blocks until ctx is cancelled and then shuts down the children. It is a
// runnable of the manager.
func (e *Executor) Run(ctx context.Context) error {
	<-ctx.Done()
	shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.Grace)
	defer cancel()
	return e.Shutdown(shutdownCtx)
}
