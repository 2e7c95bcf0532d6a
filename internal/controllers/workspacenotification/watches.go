package workspacenotification

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
)

// secretIndex is the index of the notifications by the name of their Secret.
const secretIndex = "capt.secret"

func index(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &infrav1.WorkspaceNotification{}, secretIndex, func(obj client.Object) []string {
		notification, ok := obj.(*infrav1.WorkspaceNotification)
		if !ok {
			return nil
		}
		return []string{notification.Spec.SecretRef.Name}
	})
	if err != nil {
		return fmt.Errorf("indexing notifications by Secret: %w", err)
	}
	return nil
}

// usersOfSecret returns the notifications that refer to a Secret.
func (r *Reconciler) usersOfSecret(ctx context.Context, secret client.Object) []ctrl.Request {
	return r.find(ctx, client.InNamespace(secret.GetNamespace()), client.MatchingFields{secretIndex: secret.GetName()})
}

// inNamespace returns the notifications in the namespace of a workspace.
func (r *Reconciler) inNamespace(ctx context.Context, workspace client.Object) []ctrl.Request {
	return r.find(ctx, client.InNamespace(workspace.GetNamespace()))
}

func (r *Reconciler) find(ctx context.Context, options ...client.ListOption) []ctrl.Request {
	every := func(*infrav1.WorkspaceNotification) bool { return true }
	return reconcile.Requests(ctx, r.Client, &infrav1.WorkspaceNotificationList{}, every, options...)
}

// mayNotify passes workspaces about which there may be a message. It drops the progress of
// runs, which changes every two seconds.
func mayNotify() predicate.Predicate {
	return predicate.Funcs{
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*infrav1.WorkspaceTemplateApply)
			after, same := e.ObjectNew.(*infrav1.WorkspaceTemplateApply)
			return ok && same && (stateOf(before) != stateOf(after) || !maps.Equal(before.Labels, after.Labels))
		},
	}
}

// state is what decides about messages.
type state struct {
	run, plan, approved string
	waiting             bool
	drift               metav1.ConditionStatus
}

func stateOf(apply *infrav1.WorkspaceTemplateApply) state {
	s := state{approved: apply.Spec.ApprovedPlan}
	if history := apply.Status.History; len(history) > 0 {
		s.run = history[0].ID
	}
	if plan := apply.Status.Plan; plan != nil {
		s.plan, s.waiting = plan.ID, plan.Waiting != nil && *plan.Waiting
	}
	if c := meta.FindStatusCondition(apply.Status.Conditions, infrav1.NoDriftCondition); c != nil {
		s.drift = c.Status
	}
	return s
}
