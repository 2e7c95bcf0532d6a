package operate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// The roles of CAPT that may create the objects of this package.
const (
	editorRole   = "capt-editor"
	approverRole = "capt-approver"
)

// request creates an operation of a workspace. A new operation has no status: it is pending.
func request(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, spec infrav1.WorkspaceOperationSpec) (*infrav1.WorkspaceOperation, error) {
	spec.Workspace, spec.WorkspaceUID = apply.Name, apply.UID
	operation := &infrav1.WorkspaceOperation{ObjectMeta: newMeta(apply), Spec: spec}
	return operation, create(ctx, c, operation, fmt.Sprintf("requesting %s of %s", spec.Type, apply.Name), editorRole)
}

// newMeta is the metadata of a new object for a workspace. The API server shortens the name.
func newMeta(apply *infrav1.WorkspaceTemplateApply) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: apply.Namespace, GenerateName: apply.Name + "-"}
}

// create creates an object. If the user may not, the error names the role that may.
func create(ctx context.Context, c client.Client, obj client.Object, doing, role string) error {
	err := c.Create(ctx, obj)
	switch {
	case err == nil:
		return nil
	// The errors of webhooks say themselves what is missing.
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot create resource"):
		return fmt.Errorf("%s: %w (the role %s allows it)", doing, err, role)
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}

// operations returns the operations of a workspace that match, the oldest first.
func operations(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, matches func(*infrav1.WorkspaceOperation) bool) ([]*infrav1.WorkspaceOperation, error) {
	var list infrav1.WorkspaceOperationList
	if err := c.List(ctx, &list, client.InNamespace(apply.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the operations of %s: %w", apply.Name, err)
	}
	var found []*infrav1.WorkspaceOperation
	for i := range list.Items {
		operation := &list.Items[i]
		if operation.Spec.Workspace == apply.Name && operation.Spec.WorkspaceUID == apply.UID && matches(operation) {
			found = append(found, operation)
		}
	}
	slices.SortStableFunc(found, func(a, b *infrav1.WorkspaceOperation) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return found, nil
}

// openOf returns what matches the operations of a type that have not ended.
func openOf(kind infrav1.OperationType) func(*infrav1.WorkspaceOperation) bool {
	return func(o *infrav1.WorkspaceOperation) bool { return o.Spec.Type == kind && !o.Ended() }
}

// Withdraw deletes an operation that has not ended, and that has not started unless evenStarted
// is set. It reports whether the operation does not exist any more.
func Withdraw(ctx context.Context, c client.Client, operation *infrav1.WorkspaceOperation, evenStarted bool) (withdrawn bool, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		live := &infrav1.WorkspaceOperation{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(operation), live); err != nil {
			withdrawn = apierrors.IsNotFound(err)
			return client.IgnoreNotFound(err)
		}
		if live.Ended() || !evenStarted && live.Status.Phase == infrav1.OperationRunning {
			return nil
		}
		err := c.Delete(ctx, live, client.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion})
		withdrawn = client.IgnoreNotFound(err) == nil
		return client.IgnoreNotFound(err)
	})
	if err != nil {
		return false, fmt.Errorf("withdrawing operation %s: %w", operation.Name, err)
	}
	return withdrawn, nil
}
