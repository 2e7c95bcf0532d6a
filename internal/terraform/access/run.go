package access

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// ReadRun reads the Secret of a run. It does not find that of an earlier or the next
// workspace of the name, whose runs have the same IDs.
func ReadRun(ctx context.Context, reader client.Reader, run terraform.Run) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: record.SecretName(run.ID)}, secret)
	if err == nil && ofAnother(secret, run) {
		err = apierrors.NewNotFound(corev1.Resource("secrets"), secret.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading run %s: %w", run.ID, err)
	}
	return secret, nil
}

// PendingRequest returns the request of a run, or nil if the run has already started. It
// returns an error if the request is not the one with which the manager created the run.
func PendingRequest(ctx context.Context, reader client.Reader, run terraform.Run) (*terraform.Request, error) {
	if run.Request != nil {
		return run.Request, nil
	}
	secret, err := ReadRun(ctx, reader, run)
	if err != nil || record.Claimed(secret) || record.Finished(secret) {
		return nil, err
	}
	return record.CheckedRequest(secret, run)
}

func ofAnother(secret *corev1.Secret, run terraform.Run) bool {
	owner := metav1.GetControllerOfNoCopy(secret)
	return owner != nil && string(owner.UID) != run.WorkspaceUID
}

// Interrupt records that a run is to interrupt its tool at once, because a user has canceled it
// or deletes the workspace. Without it, a runner that gets a signal completes its apply.
func Interrupt(ctx context.Context, reader client.Reader, writer client.Writer, run terraform.Run) error {
	secret, err := ReadRun(ctx, reader, run)
	if err != nil || record.Finished(secret) || record.Interrupted(secret) {
		return client.IgnoreNotFound(err)
	}
	patch, err := record.InterruptPatch()
	if err != nil {
		return err
	}
	if patch, err = record.WithUID(patch, secret.UID); err != nil {
		return err
	}
	if err := writer.Patch(ctx, secret, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("interrupting run %s: %w", run.ID, err)
	}
	return nil
}
