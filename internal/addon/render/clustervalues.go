package render

import (
	"encoding/json"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/placeholder"
)

// ClusterInputs returns a text that changes with each property of a Cluster that the add-on uses.
func ClusterInputs(addon *addonsv1.CAPTAddon, cluster Cluster) string {
	values := map[string]string{}
	for i := range addon.Spec.ClusterValues {
		v := &addon.Spec.ClusterValues[i]
		if value, found := cluster.value(v); found {
			values[v.Name] = value
		}
	}
	var selected []int
	if addon.Spec.Helm != nil {
		for i := range addon.Spec.Helm.Overrides {
			if found, err := cluster.isSelected(&addon.Spec.Helm.Overrides[i].ClusterSelector); found && err == nil {
				selected = append(selected, i)
			}
		}
	}
	return fmt.Sprintf("%q%v", values, selected)
}

// value returns the value of a property of the Cluster.
func (c Cluster) value(v *addonsv1.ClusterValue) (value string, found bool) {
	switch {
	case v.Label != "":
		value, found = c.Labels[v.Label]
	case v.Annotation != "":
		value, found = c.Annotations[v.Annotation]
	default:
		var raw []byte
		if raw, found = c.Variables[v.Variable]; found {
			value = placeholder.Value(raw, maxBytes)
		}
	}
	return value, found
}

// clusterValues returns the values of the Cluster by the names of their placeholders.
func (in *Input) clusterValues() (map[string]string, error) {
	values := map[string]string{}
	for i := range in.Addon.Spec.ClusterValues {
		v := &in.Addon.Spec.ClusterValues[i]
		value, found := in.Cluster.value(v)
		switch {
		case found:
			values[v.Name] = value
		case v.Default != nil:
			values[v.Name] = *v.Default
		default:
			kind, key := "variable", v.Variable
			if v.Label != "" {
				kind, key = "label", v.Label
			} else if v.Annotation != "" {
				kind, key = "annotation", v.Annotation
			}
			return nil, fault.Stall(addonsv1.MissingKeyReason, "Add-on %s: clusterValues %s: the Cluster has no %s %s: add it, or a default", in.Addon.Name, v.Name, kind, key)
		}
	}
	return values, nil
}

// isSelected reports whether a selector selects the Cluster.
func (c Cluster) isSelected(by *metav1.LabelSelector) (bool, error) {
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		return false, fmt.Errorf("parsing the selector: %w", err)
	}
	set := labels.Set{}
	maps.Copy(set, c.Labels)
	set[addonsv1.ClusterLabel] = c.Name
	return selector.Matches(set), nil
}

// mergedValues returns helm.values with those of its overrides for the Cluster, or nil if there
// are none.
func (in *Input) mergedValues(b *budget) (any, error) {
	helm := in.Addon.Spec.Helm
	var raw [][]byte
	if helm.Values != nil && len(helm.Values.Raw) > 0 {
		raw = append(raw, helm.Values.Raw)
	}
	for i := range helm.Overrides {
		found, err := in.Cluster.isSelected(&helm.Overrides[i].ClusterSelector)
		if err != nil {
			return nil, fault.Stall(addonsv1.InvalidManifestReason, "Add-on %s: helm.overrides[%d].clusterSelector is invalid: %w", in.Addon.Name, i, err)
		}
		if found {
			raw = append(raw, helm.Overrides[i].Values.Raw)
		}
	}
	if len(raw) == 0 {
		return nil, nil
	}
	var content any = map[string]any{}
	for _, text := range raw {
		if err := b.memory.CheckJSON(text); err != nil {
			return nil, in.unresolved("helm.values", nil, err)
		}
		var values any
		if err := json.Unmarshal(text, &values); err != nil {
			return nil, fault.Stall(addonsv1.InvalidManifestReason, "Add-on %s: helm.values is not valid JSON", in.Addon.Name)
		}
		content = merge(content, values)
	}
	return content, nil
}

// merge returns base with the entries of over: objects are merged by key, anything else is
// replaced.
func merge(base, over any) any {
	into, isObject := base.(map[string]any)
	entries, isOverObject := over.(map[string]any)
	if !isObject || !isOverObject {
		return over
	}
	merged := maps.Clone(into)
	for key, value := range entries {
		merged[key] = merge(merged[key], value)
	}
	return merged
}
