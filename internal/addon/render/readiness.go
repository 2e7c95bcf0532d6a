package render

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
)

// Health is what an object in a workload cluster says of itself.
type Health struct {
	Ready bool
	// Reason and Message tell why it is not ready.
	Reason, Message string
	// Failed tells that waiting alone will not help.
	Failed bool
}

// Check tells whether an object is ready: by the condition, if one is named,
// else by what its kind means by it.
func Check(obj *unstructured.Unstructured, condition string) Health {
	name := identity(obj).String()
	if condition != "" {
		value, message := find(obj, condition)
		if value == "True" {
			return Health{Ready: true}
		}
		if value == "" {
			message = "is not reported yet"
		}
		return Health{Reason: addonsv1.NotReadyReason, Message: strings.TrimSpace(fmt.Sprintf("%s: %s %s", name, condition, message))}
	}
	if obj.GroupVersionKind().GroupKind() == (schema.GroupKind{Group: "apps", Kind: "Deployment"}) {
		return available(obj)
	}
	result, err := status.Compute(obj)
	if err != nil {
		return Health{Reason: addonsv1.NotReadyReason, Message: name + ": its status cannot be read"}
	}
	if result.Status == status.CurrentStatus {
		return Health{Ready: true}
	}
	return Health{Reason: addonsv1.NotReadyReason, Message: name + ": " + result.Message, Failed: result.Status == status.FailedStatus}
}

// available tells whether a Deployment does its work in its latest revision. It
// may have fewer pods than it wants, as its strategy allows: the second pod of
// Karpenter may need the node that Karpenter is to make.
func available(obj *unstructured.Unstructured) Health {
	name := identity(obj).String()
	wanted, found, err := unstructured.NestedInt64(obj.Object, "spec", "replicas")
	if err != nil || !found {
		wanted = 1
	}
	total, updated, running := count(obj, "replicas"), count(obj, "updatedReplicas"), count(obj, "availableReplicas")
	value, message := find(obj, "Available")
	progressing, why := find(obj, "Progressing")
	switch {
	case !observed(obj):
		return Health{Reason: addonsv1.NotReadyReason, Message: name + ": its controller has not seen the change yet"}
	case progressing == "False":
		return Health{Reason: addonsv1.NotReadyReason, Message: name + ": " + why, Failed: true}
	case value != "True":
		return Health{Reason: addonsv1.NotReadyReason, Message: fmt.Sprintf("%s: %d of %d pods are available: %s", name, running, wanted, firstOf(message, "none was made yet"))}
	case updated < wanted || total > updated:
		return Health{Reason: addonsv1.NotReadyReason, Message: fmt.Sprintf("%s: %d of %d pods are of the latest revision", name, updated, wanted)}
	}
	return Health{Ready: true}
}

func count(obj *unstructured.Unstructured, field string) int64 {
	n, _, err := unstructured.NestedInt64(obj.Object, "status", field)
	if err != nil {
		return 0
	}
	return n
}

// CheckRelease tells whether Flux has brought the release to what was rendered.
func CheckRelease(hr *unstructured.Unstructured, want *Release) Health {
	name := identity(hr).String()
	ready, message := find(hr, "Ready")
	if stalled, why := find(hr, "Stalled"); stalled == "True" && observed(hr) && handled(hr, want) {
		return Health{
			Reason: addonsv1.ReleaseStalledReason, Failed: true,
			Message: fmt.Sprintf("%s: Flux has given up: %s", name, withCause(hr, firstOf(why, message))),
		}
	}
	switch version := deployed(hr); {
	case !handled(hr, want) || !attempted(hr):
		return Health{Reason: addonsv1.ApplyingReason, Message: name + ": Flux has not taken it up yet"}
	case ready == "False":
		return Health{Reason: addonsv1.NotReadyReason, Message: name + ": " + withCause(hr, message)}
	case ready != "True" || !observed(hr):
		return Health{Reason: addonsv1.ApplyingReason, Message: name + ": " + firstOf(message, "Flux is at work")}
	case !sameVersion(version, want.Version):
		return Health{Reason: addonsv1.ApplyingReason, Message: fmt.Sprintf("%s: chart %s is deployed, %s is wanted", name, version, want.Version)}
	}
	return Health{Ready: true}
}

// withCause adds why Helm has failed: once Flux has rolled a release back, it
// tells of that alone.
func withCause(hr *unstructured.Unstructured, message string) string {
	released, why := find(hr, "Released")
	if released != "False" || why == "" || strings.Contains(message, why) {
		return message
	}
	return strings.TrimSuffix(message, ".") + ": " + why
}

// attempted tells whether Flux says something about the latest generation. It
// calls that observed only when it has come to an end with it.
func attempted(hr *unstructured.Unstructured) bool {
	if observed(hr) {
		return true
	}
	conditions, _, err := unstructured.NestedSlice(hr.Object, "status", "conditions")
	if err != nil {
		return false
	}
	for _, c := range conditions {
		if fields, ok := c.(map[string]any); ok && fields["type"] == "Ready" && fields["status"] == "False" {
			generation, ok := fields["observedGeneration"].(int64)
			return ok && generation >= hr.GetGeneration()
		}
	}
	return false
}

// handled tells whether Flux has dealt with this rendering.
func handled(hr *unstructured.Unstructured, want *Release) bool {
	token, _, err := unstructured.NestedString(hr.Object, "status", "lastHandledReconcileAt")
	return err == nil && token == want.Token
}

func observed(obj *unstructured.Unstructured) bool {
	seen, _, err := unstructured.NestedInt64(obj.Object, "status", "observedGeneration")
	return err == nil && seen >= obj.GetGeneration()
}

// deployed is the version of the chart that is released.
func deployed(hr *unstructured.Unstructured) string {
	history, _, err := unstructured.NestedSlice(hr.Object, "status", "history")
	if err != nil || len(history) == 0 {
		return ""
	}
	latest, ok := history[0].(map[string]any)
	if !ok {
		return ""
	}
	version, _ := latest["chartVersion"].(string)
	return version
}

// sameVersion compares versions, one of which may have the digest of the
// artifact as its build metadata.
func sameVersion(deployed, wanted string) bool {
	if deployed == wanted {
		return true
	}
	plain, _, _ := strings.Cut(deployed, "+")
	return strings.TrimPrefix(plain, "v") == strings.TrimPrefix(wanted, "v")
}

// Inventory are the workloads that a release consists of: what runs pods.
func Inventory(hr *unstructured.Unstructured) []Object {
	entries, _, err := unstructured.NestedSlice(hr.Object, "status", "inventory", "entries")
	if err != nil {
		return nil
	}
	var objects []Object
	for _, entry := range entries {
		fields, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		id, _ := fields["id"].(string)
		version, _ := fields["v"].(string)
		// The id is namespace_name_group_kind; names hold no underscore.
		parts := strings.Split(id, "_")
		if len(parts) != 4 || parts[2] != "apps" {
			continue
		}
		objects = append(objects, Object{
			GroupVersionKind: schema.GroupVersionKind{Group: parts[2], Version: version, Kind: parts[3]},
			Namespace:        parts[0], Name: parts[1],
		})
	}
	return objects
}

// find returns the status and the message of a condition.
func find(obj *unstructured.Unstructured, condition string) (value, message string) {
	conditions, _, err := unstructured.NestedSlice(obj.Object, "status", "conditions")
	if err != nil {
		return "", ""
	}
	for _, c := range conditions {
		fields, ok := c.(map[string]any)
		if !ok || fields["type"] != condition {
			continue
		}
		value, _ = fields["status"].(string)
		message, _ = fields["message"].(string)
		return value, message
	}
	return "", ""
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
