package workspace

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// connectionRetryInterval is the delay before a missing connection Secret is read again.
const connectionRetryInterval = 2 * time.Second

// Connection returns the data of the connection Secret of a workspace, or nil if it has
// none. It waits with a reason for a Secret that does not exist, and stalls on one that
// the workspace does not control: a user may have written its data.
func (k *Keeper) Connection(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, reason string) (map[string][]byte, error) {
	key := client.ObjectKey{Namespace: apply.Namespace, Name: apply.Status.ConnectionSecretName}
	if key.Name == "" {
		return nil, nil
	}
	var secret corev1.Secret
	err := k.Live.Get(ctx, key, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fault.WaitFor(connectionRetryInterval, reason, "Secret %s does not exist yet", key.Name)
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s: %w", key.Name, err)
	case !metav1.IsControlledBy(&secret, apply):
		return nil, fault.Stall(infrav1.SecretConflictReason, "Secret %s does not belong to WorkspaceTemplateApply %s: delete it, so that the outputs are written again", key.Name, apply.Name)
	}
	return secret.Data, nil
}
