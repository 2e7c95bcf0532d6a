package workspacenotification

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// addon is an add-on in one cluster.
type addon struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Cluster   string `json:"cluster"`
	Reason    string `json:"reason"`
}

// addonMessages returns a message for each cluster in which an add-on fails. Until it has been
// ready there, further failures are the same event.
func addonMessages(a *addonsv1.CAPTAddon) []message {
	var messages []message
	for i := range a.Status.Clusters {
		c := &a.Status.Clusters[i]
		if !notifies(c) {
			continue
		}
		m := newMessageAbout(string(a.UID), infrav1.NotifyAddonFailed, c.Name+"\n"+c.WaitingSince.UTC().Format(time.RFC3339), c.Since.Time,
			"%s: %s. See: captctl addon status %s -n %s", c.Reason, strings.TrimSuffix(c.Message, "."), a.Name, a.Namespace)
		m.Addon = addon{Namespace: a.Namespace, Name: a.Name, UID: string(a.UID), Cluster: c.Name, Reason: c.Reason}
		messages = append(messages, m)
	}
	return messages
}

// notifies reports whether an add-on fails in a cluster. Drift is repaired at once.
func notifies(c *addonsv1.ClusterAddonStatus) bool {
	return addonsv1.IsFailure(c.Reason) && c.Reason != addonsv1.DriftedReason
}

// mayNotifyAddon passes add-ons about which there may be a message.
func mayNotifyAddon() predicate.Predicate {
	return predicate.Funcs{
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool { return failingIn(e.ObjectOld) != failingIn(e.ObjectNew) },
	}
}

// failingIn returns what decides about messages: the clusters in which an add-on fails, with the
// reasons, and its labels.
func failingIn(obj client.Object) string {
	a, ok := obj.(*addonsv1.CAPTAddon)
	if !ok {
		return ""
	}
	var text strings.Builder
	for i := range a.Status.Clusters {
		if c := &a.Status.Clusters[i]; notifies(c) {
			text.WriteString(c.Name + "=" + c.Reason + "\n")
		}
	}
	return text.String() + labels.FormatLabels(a.Labels)
}
