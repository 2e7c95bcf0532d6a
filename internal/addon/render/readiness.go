package render

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
)

// Health is the readiness of an object in a workload cluster.
type Health struct {
	Ready bool
	// Reason and Message explain why the object is not ready.
	Reason, Message string
	// Failed reports that the object will not become ready by itself.
	Failed bool
}

// Check returns whether an object is ready: by the given condition, or by the
// rules for its kind if there is none.
func Check(obj *unstructured.Unstructured, condition string) Health {
	name := IdentityOf(obj).String()
	if condition != "" {
		value, message := findCondition(obj, condition)
		if value == "True" {
			return Health{Ready: true}
		}
		if value == "" {
			message = "is not reported yet"
		}
		return Health{Reason: addonsv1.NotReadyReason, Message: strings.TrimSpace(fmt.Sprintf("%s: %s %s", name, condition, message))}
	}
	if obj.GroupVersionKind().GroupKind() == (schema.GroupKind{Group: "apps", Kind: "Deployment"}) {
		return checkDeployment(obj)
	}
	result, err := status.Compute(obj)
	if err != nil {
		return Health{Reason: addonsv1.NotReadyReason, Message: name + ": its status is invalid"}
	}
	if result.Status == status.CurrentStatus {
		return Health{Ready: true}
	}
	return Health{Reason: addonsv1.NotReadyReason, Message: name + ": " + result.Message, Failed: result.Status == status.FailedStatus}
}

// checkDeployment returns whether a Deployment is available in its latest
// revision. It may have fewer pods than desired, as its strategy allows: the
// second pod of Karpenter may need a node that Karpenter has yet to create.
func checkDeployment(obj *unstructured.Unstructured) Health {
	name := IdentityOf(obj).String()
	desired, found, err := unstructured.NestedInt64(obj.Object, "spec", "replicas")
	if err != nil || !found {
		desired = 1
	}
	total, updated, running := statusCount(obj, "replicas"), statusCount(obj, "updatedReplicas"), statusCount(obj, "availableReplicas")
	available, message := findCondition(obj, "Available")
	progressing, why := findCondition(obj, "Progressing")
	switch {
	case !isObserved(obj):
		return Health{Reason: addonsv1.NotReadyReason, Message: name + ": its controller has not observed the change yet"}
	case progressing == "False":
		return Health{Reason: addonsv1.NotReadyReason, Message: name + ": " + why, Failed: true}
	case available != "True":
		return Health{Reason: addonsv1.NotReadyReason, Message: fmt.Sprintf("%s: %d of %d pods are available: %s", name, running, desired, cmp.Or(message, "no pod is reported yet"))}
	case updated < desired || total > updated:
		return Health{Reason: addonsv1.NotReadyReason, Message: fmt.Sprintf("%s: %d of %d pods run the latest revision", name, updated, desired)}
	}
	return Health{Ready: true}
}

func statusCount(obj *unstructured.Unstructured, field string) int64 {
	n, _, err := unstructured.NestedInt64(obj.Object, "status", field)
	if err != nil {
		return 0
	}
	return n
}

// CheckRelease returns whether Flux has deployed the rendered release.
func CheckRelease(hr *unstructured.Unstructured, desired *Release) Health {
	name := IdentityOf(hr).String()
	ready, message := findCondition(hr, "Ready")
	if stalled, why := findCondition(hr, "Stalled"); stalled == "True" && isObserved(hr) && isHandled(hr, desired) {
		return Health{
			Reason: addonsv1.ReleaseStalledReason, Failed: true,
			Message: fmt.Sprintf("%s: Flux has given up: %s", name, withCause(hr, cmp.Or(why, message))),
		}
	}
	switch version := deployedVersion(hr); {
	case !isHandled(hr, desired) || !isAttempted(hr):
		return Health{Reason: addonsv1.ApplyingReason, Message: name + ": Flux has not observed it yet"}
	case ready == "False":
		return Health{Reason: addonsv1.NotReadyReason, Message: name + ": " + withCause(hr, message)}
	case ready != "True" || !isObserved(hr):
		return Health{Reason: addonsv1.ApplyingReason, Message: name + ": " + cmp.Or(message, "Flux is reconciling it")}
	case !sameVersion(version, desired.Version):
		return Health{Reason: addonsv1.ApplyingReason, Message: fmt.Sprintf("%s: chart %s is deployed, %s is desired", name, version, desired.Version)}
	}
	return Health{Ready: true}
}

// withCause adds why Helm failed. After a rollback, Flux reports only the
// rollback.
func withCause(hr *unstructured.Unstructured, message string) string {
	released, why := findCondition(hr, "Released")
	if released != "False" || why == "" || strings.Contains(message, why) {
		return message
	}
	return strings.TrimSuffix(message, ".") + ": " + why
}

// isAttempted reports whether Flux has reported a result for the latest
// generation. Flux sets observedGeneration only when it is done with it.
func isAttempted(hr *unstructured.Unstructured) bool {
	if isObserved(hr) {
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

// isHandled reports whether Flux has reconciled this rendering.
func isHandled(hr *unstructured.Unstructured, desired *Release) bool {
	token, _, err := unstructured.NestedString(hr.Object, "status", "lastHandledReconcileAt")
	return err == nil && token == desired.Token
}

// isObserved reports whether the controller of an object has observed its latest
// generation.
func isObserved(obj *unstructured.Unstructured) bool {
	generation, _, err := unstructured.NestedInt64(obj.Object, "status", "observedGeneration")
	return err == nil && generation >= obj.GetGeneration()
}

// deployedVersion returns the version of the deployed chart.
func deployedVersion(hr *unstructured.Unstructured) string {
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

// sameVersion reports whether two versions are equal apart from a leading v and
// from build metadata of the deployed one: Flux adds the digest of the artifact.
func sameVersion(deployed, desired string) bool {
	if deployed == desired {
		return true
	}
	plain, _, _ := strings.Cut(deployed, "+")
	return strings.TrimPrefix(plain, "v") == strings.TrimPrefix(desired, "v")
}

// Inventory returns the workloads of a release: the objects that run pods.
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
		// The id is namespace_name_group_kind. Names contain no underscore.
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

// findCondition returns the status and message of a condition.
func findCondition(obj *unstructured.Unstructured, condition string) (value, message string) {
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
