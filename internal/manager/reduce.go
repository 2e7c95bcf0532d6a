package manager

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
)

// Limits of an object of a workload cluster in the cache. The users of that cluster
// write these objects.
const (
	// maxSpecField limits a field of the spec. Readiness depends on short ones, such as
	// replicas, suspend and updateStrategy.
	maxSpecField = 256
	// maxStatus limits the status. The longest is that of a HelmRelease, which lists the
	// objects of the release.
	maxStatus = 256 << 10
)

// reduce removes the parts of an object of a workload cluster that no controller reads.
func reduce(in any) (any, error) {
	switch obj := in.(type) {
	case *unstructured.Unstructured:
		reduceObject(obj)
	case *corev1.Secret:
		obj.Data, obj.Annotations, obj.ManagedFields = nil, nil, nil
	case *corev1.Node:
		reduceNode(obj)
	case client.Object:
		obj.SetManagedFields(nil)
	}
	return in, nil
}

// reduceNode keeps what controllers of machines read. The list of images alone is most of
// a node.
func reduceNode(node *corev1.Node) {
	kept := corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: node.Status.NodeInfo.KubeletVersion}}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			kept.Conditions = []corev1.NodeCondition{condition}
		}
	}
	node.Status = kept
	text, recorded := node.Annotations[infrav1.NodeSettingsAnnotation]
	node.ManagedFields, node.OwnerReferences, node.Finalizers, node.Annotations = nil, nil, nil, nil
	if recorded {
		node.Annotations = map[string]string{infrav1.NodeSettingsAnnotation: text}
	}
}

// reduceObject keeps what the readiness of an object is computed from: its identity and
// status, and the short fields of its spec. Of a Secret it keeps a digest.
func reduceObject(obj *unstructured.Unstructured) {
	if obj.GroupVersionKind().GroupKind() == (schema.GroupKind{Kind: "Secret"}) {
		render.DropData(obj)
	}
	kept := map[string]any{}
	for _, field := range []string{"apiVersion", "kind", "metadata", "data", "spec", "status"} {
		if value, found := obj.Object[field]; found && (field != "data" || obj.GetKind() == "Secret") {
			kept[field] = value
		}
	}
	obj.Object = kept
	obj.SetManagedFields(nil)
	obj.SetAnnotations(nil)
	obj.SetOwnerReferences(nil)
	obj.SetFinalizers(nil)
	if spec, ok := kept["spec"].(map[string]any); ok {
		kept["spec"] = shortFields(spec, maxSpecField)
	}
	if status, ok := kept["status"].(map[string]any); ok && weight(status, maxStatus) > maxStatus {
		kept["status"] = shortFields(status, maxStatus/16)
	}
}

// shortFields returns the fields with at most limit bytes.
func shortFields(fields map[string]any, limit int) map[string]any {
	short := map[string]any{}
	for key, value := range fields {
		if weight(value, limit) <= limit {
			short[key] = value
		}
	}
	return short
}

// weight estimates the bytes of decoded JSON. It stops beyond the limit.
func weight(value any, limit int) int {
	total := 8
	switch v := value.(type) {
	case string:
		total += len(v)
	case []any:
		for _, item := range v {
			if total += weight(item, limit-total); total > limit {
				return total
			}
		}
	case map[string]any:
		for key, item := range v {
			if total += len(key) + weight(item, limit-total); total > limit {
				return total
			}
		}
	}
	return total
}
