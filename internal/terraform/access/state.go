package access

import (
	"context"
	"fmt"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// reserveState creates the Secret of the state and the Lease that locks it. It returns an
// error if the state is not that of the workspace. A run must not create a Secret that it
// can read: it could choose the type of a service account token and so read the token of
// any account in the namespace.
func (g Granter) reserveState(ctx context.Context, request *terraform.Request, workspace terraform.WorkspaceRef) error {
	meta := record.StateMeta(request)
	meta.Name = request.Backend.StateSecretName()
	secret := &corev1.Secret{ObjectMeta: *meta.DeepCopy(), Type: corev1.SecretTypeOpaque}
	meta.Name = request.Backend.LeaseName()
	var exists atomic.Bool
	err := together([]client.Object{&coordinationv1.Lease{ObjectMeta: meta}, secret}, func(object client.Object) error {
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
	return g.recordName(ctx, existing, request, workspace)
}

// recordName records the workspace of a state that an earlier version created, so that no other
// workspace of a similar name gets it from now on. It returns an error if it may be of another one
// already.
func (g Granter) recordName(ctx context.Context, state *corev1.Secret, request *terraform.Request, workspace terraform.WorkspaceRef) error {
	patch := client.MergeFromWithOptions(state.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if !record.SetName(state, workspace.Name) {
		return nil
	}
	if !record.HasUniqueState(workspace.Name) && !isKnown(state, request.State) {
		return fmt.Errorf("state %s has no record of its workspace, and may be of another one with a similar name: if it is of %s, let an approver adopt it with the annotation capt.appthrust.io/adopt-state: %w",
			state.Name, workspace.Name, record.ErrForged)
	}
	if err := g.Client.Patch(ctx, state, patch); err != nil {
		return fmt.Errorf("recording the workspace of the state: %w", err)
	}
	return nil
}

// isKnown reports whether a state is empty, that which earlier runs of the workspace reported, or
// that which an approver adopts.
func isKnown(state *corev1.Secret, known terraform.KnownState) bool {
	if len(state.Data["tfstate"]) == 0 {
		return true
	}
	_, found, err := record.StateIsEmpty(state)
	if err != nil || found.Lineage == "" {
		return false
	}
	return found.Lineage == known.Lineage || found.Version() == known.Adopt
}
