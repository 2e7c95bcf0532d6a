package access

import (
	"context"
	"fmt"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// reserveState creates the Secret of the state and the Lease that locks it. It returns an
// error if the state is not that of the workspace. A run must not create a Secret that it
// can read: it could choose the type of a service account token and so read the token of
// any account in the namespace.
func (g Granter) reserveState(ctx context.Context, request *terraform.Request, workspace terraform.WorkspaceRef) error {
	secret := &corev1.Secret{ObjectMeta: record.StateMeta(request), Type: corev1.SecretTypeOpaque}
	var exists atomic.Bool
	err := together([]client.Object{&coordinationv1.Lease{ObjectMeta: record.LockMeta(request)}, secret}, func(object client.Object) error {
		err := g.Client.Create(ctx, object)
		if apierrors.IsAlreadyExists(err) {
			if object == client.Object(secret) {
				exists.Store(true)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
		}
		return nil
	})
	if err != nil || !exists.Load() {
		return err
	}
	existing := &corev1.Secret{}
	if err := g.Reader.Get(ctx, client.ObjectKeyFromObject(secret), existing); err != nil {
		return fmt.Errorf("reading the state: %w", err)
	}
	if existing.Type != corev1.SecretTypeOpaque {
		// A Secret with a token, for example, that another run created under this name.
		return fmt.Errorf("the Secret %s has type %s and is not a state: %w", existing.Name, existing.Type, record.ErrForged)
	}
	if record.BelongsToAnother(existing, workspace) {
		return fmt.Errorf("state %s belongs to another workspace: %w", existing.Name, record.ErrForged)
	}
	return g.keepState(ctx, existing)
}

// keepState adds the finalizer to a state that has none: a workspace that does not exist any
// more, a user, or the tool has left it.
func (g Granter) keepState(ctx context.Context, state *corev1.Secret) error {
	before := state.DeepCopy()
	if !state.DeletionTimestamp.IsZero() || !controllerutil.AddFinalizer(state, record.StateFinalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := g.Client.Patch(ctx, state, patch); err != nil {
		return fmt.Errorf("adding the finalizer of state %s: %w", state.Name, err)
	}
	return nil
}
