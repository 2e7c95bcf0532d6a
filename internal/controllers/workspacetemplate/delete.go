package workspacetemplate

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/usage"
)

// unused waits until no workspace uses the template.
func (r *Reconciler) unused(ctx context.Context, s *scope) error {
	users, err := r.Usage.OfTemplate(ctx, client.ObjectKeyFromObject(s.template))
	if err != nil {
		return err
	}
	waits := usage.Wait(users)
	if waiting, ok := fault.AsWaiting(waits); ok && slices.ContainsFunc(users, func(user client.ObjectKey) bool { return user.Namespace != s.template.Namespace }) {
		// No event of a workspace follows when a grant is withdrawn.
		return fault.WaitFor(grantInterval, waiting.Reason, "%s", waiting.Message())
	}
	return waits
}

// grantInterval is how often a template that is being deleted is checked while workspaces of
// other namespaces use it.
const grantInterval = 30 * time.Second

// isDeleted selects the templates that wait for their workspaces. The start of a deletion is an
// event of the template itself.
func isDeleted(template *infrav1.WorkspaceTemplate) bool { return !template.DeletionTimestamp.IsZero() }
