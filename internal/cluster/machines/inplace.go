package machines

import (
	"encoding/json"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// templateMetadata are the keys of a machine's metadata that come from the
// template. A machine has them in an annotation.
type templateMetadata struct {
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
}

// Labels returns the labels of each machine of a set: those of the template, the
// cluster name, and the watch filter.
func Labels(set *infrav1.CAPTMachineSet) map[string]string {
	labels := merged(set.Spec.Template.ObjectMeta.Labels, map[string]string{clusterv1.ClusterNameLabel: set.Spec.ClusterName})
	if filter, found := set.Labels[clusterv1.WatchLabel]; found {
		labels[clusterv1.WatchLabel] = filter
	}
	return labels
}

// HasLabels reports whether a machine has all labels of its set's machines.
func HasLabels(set *infrav1.CAPTMachineSet, m *infrav1.CAPTMachine) bool {
	for key, value := range Labels(set) {
		if m.Labels[key] != value {
			return false
		}
	}
	return true
}

// NewMachine returns a new machine of a set.
func NewMachine(set *infrav1.CAPTMachineSet, name string) *infrav1.CAPTMachine {
	m := &infrav1.CAPTMachine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: name,
			OwnerReferences: []metav1.OwnerReference{SetReference(set)},
		},
		Spec: *set.Spec.Template.Spec.DeepCopy(),
	}
	m.Spec.ProviderID = ""
	UpdateMachine(set, m)
	return m
}

// SetReference returns the owner reference of a set's machines.
func SetReference(set *infrav1.CAPTMachineSet) metav1.OwnerReference {
	return *metav1.NewControllerRef(set, infrav1.GroupVersion.WithKind("CAPTMachineSet"))
}

// UpdateMachine updates a machine in place with the template of its set. Labels
// and annotations that did not come from the template stay.
func UpdateMachine(set *infrav1.CAPTMachineSet, m *infrav1.CAPTMachine) {
	template := set.Spec.Template.DeepCopy()
	m.Spec.Labels, m.Spec.Taints = template.Spec.Labels, template.Spec.Taints
	m.Spec.Tags, m.Spec.Drain, m.Spec.Workspace = template.Spec.Tags, template.Spec.Drain, template.Spec.Workspace

	var previous templateMetadata
	if text, found := m.Annotations[infrav1.TemplateMetadataAnnotation]; found {
		// An invalid annotation counts as a missing one.
		_ = json.Unmarshal([]byte(text), &previous)
	}
	labels, annotations := Labels(set), template.ObjectMeta.Annotations
	m.Labels = replaceKeys(m.Labels, previous.Labels, labels)
	m.Annotations = replaceKeys(m.Annotations, previous.Annotations, annotations)
	text, err := json.Marshal(templateMetadata{Labels: slices.Sorted(maps.Keys(labels)), Annotations: slices.Sorted(maps.Keys(annotations))})
	if err != nil {
		return // Lists of strings can always be encoded.
	}
	m.Annotations[infrav1.TemplateMetadataAnnotation] = string(text)
}

// replaceKeys returns existing without the previous keys and with the desired
// ones.
func replaceKeys(existing map[string]string, previous []string, desired map[string]string) map[string]string {
	result := map[string]string{}
	maps.Copy(result, existing)
	for _, key := range previous {
		delete(result, key)
	}
	maps.Copy(result, desired)
	return result
}
