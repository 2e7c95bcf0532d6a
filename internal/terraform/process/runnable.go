package process

import (
	"context"
)

// Run ends the children with the manager; it is a runnable of the manager.
func (e *Executor) Run(ctx context.Context) error {
	<-ctx.Done()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.Grace)
	defer cancel()
	return e.Shutdown(stopping)
}
