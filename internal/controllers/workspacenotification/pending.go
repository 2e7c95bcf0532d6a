package workspacenotification

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

const (
	// maxAge is how long a message is sent that the destination does not accept.
	maxAge = 24 * time.Hour
	// maxAhead is how far the clock of a run may be ahead. What happens later than that
	// would settle all messages until then.
	maxAhead = 5 * time.Minute
	// lateness is how late a message may be derived although later ones were delivered:
	// the manager was away, or the workspace paused.
	lateness = maxAge
	// maxDelivered limits the list of delivered messages.
	maxDelivered = 512
)

// pending returns the messages that have to be sent, the oldest first: those of selected
// workspaces and add-ons since the notification was created, except those that are delivered or older
// than a day.
func (r *Reconciler) pending(ctx context.Context, notification *infrav1.WorkspaceNotification) ([]message, error) {
	selector := labels.Everything()
	if notification.Spec.Selector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(notification.Spec.Selector); err != nil {
			return nil, fault.Stall(infrav1.InvalidSelectorReason, "spec.selector: %w", err)
		}
	}
	var list infrav1.WorkspaceTemplateApplyList
	if err := r.Client.List(ctx, &list, client.InNamespace(notification.Namespace), client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing workspaces: %w", err)
	}
	var addons addonsv1.CAPTAddonList
	if !r.noAddons {
		if err := r.Client.List(ctx, &addons, client.InNamespace(notification.Namespace), client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing add-ons: %w", err)
		}
	}
	now := r.Now()
	var pending []message
	add := func(messages []message) {
		for _, m := range messages {
			if isWanted(notification, m, now) && !isSettled(&notification.Status, m.mark()) {
				pending = append(pending, m)
			}
		}
	}
	for i := range list.Items {
		add(messagesOf(&list.Items[i]))
	}
	for i := range addons.Items {
		add(addonMessages(&addons.Items[i]))
	}
	slices.SortFunc(pending, func(a, b message) int { return compare(a.mark(), b.mark()) })
	return pending, nil
}

// isWanted reports whether a notification reports an event.
func isWanted(notification *infrav1.WorkspaceNotification, m message, now time.Time) bool {
	spec := notification.Spec
	return (len(spec.Events) == 0 || slices.Contains(spec.Events, m.Event)) &&
		!m.Time.Before(notification.CreationTimestamp.Time) && now.Sub(m.Time) < maxAge && m.Time.Sub(now) < maxAhead
}

// isSettled reports whether a message is not sent again.
func isSettled(status *infrav1.WorkspaceNotificationStatus, mark infrav1.NotificationMark) bool {
	if until := status.DeliveredUntil; until != nil && compare(mark, *until) <= 0 {
		return true
	}
	return slices.ContainsFunc(status.Delivered, func(d infrav1.NotificationMark) bool { return d.ID == mark.ID })
}

// settle records that a message is not sent again. The list has only the messages of the
// last minutes: those before are settled by their time.
func settle(status *infrav1.WorkspaceNotificationStatus, mark infrav1.NotificationMark, now time.Time) {
	delivered := append(slices.Clone(status.Delivered), mark)
	slices.SortFunc(delivered, compare)
	for len(delivered) > maxDelivered || len(delivered) > 0 && now.Sub(delivered[0].At.Time) > lateness {
		if until := status.DeliveredUntil; until == nil || compare(delivered[0], *until) > 0 {
			status.DeliveredUntil = new(delivered[0])
		}
		delivered = delivered[1:]
	}
	status.Delivered = delivered
}

// compare orders messages by time, and by id within a second.
func compare(a, b infrav1.NotificationMark) int {
	return cmp.Or(a.At.Compare(b.At.Time), cmp.Compare(a.ID, b.ID))
}
