package workspaceproviderconfig

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform/usage"
)

// unused waits until no workspace uses the config.
func (r *Reconciler) unused(ctx context.Context, s *scope) error {
	users, err := r.Usage.OfProviderConfig(ctx, client.ObjectKeyFromObject(s.config))
	if err != nil {
		return err
	}
	return usage.Wait(users)
}
