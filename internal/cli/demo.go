package cli

import (
	"context"

	"github.com/appthrust/capt/internal/embedded"
)

func (o *Options) runDemo(ctx context.Context, environment *embedded.Environment) error {
	_, err := o.bringUp(ctx, environment)
	return err
}
