package machines

import (
	"encoding/json"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// provenance is what a machine's metadata has from the template.
type provenance struct {
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
}

// Labels are the labels of each machine of a set: the template's, the cluster's
// name, and the label by which controllers share their work.
func Labels(set *infrav1.CAPTMachineSet) map[string]string {
	wanted := maps.Clone(set.Spec.Template.ObjectMeta.Labels)
	if wanted == nil {
		wanted = map[string]string{}
	}
	wanted[clusterv1.ClusterNameLabel] = set.Spec.ClusterName
	if filter, found := set.Labels[clusterv1.WatchLabel]; found {
		wanted[clusterv1.WatchLabel] = filter
	}
	return wanted
}

// NewMachine is a machine of a set.
func NewMachine(set *infrav1.CAPTMachineSet, name string) *infrav1.CAPTMachine {
	m := &infrav1.CAPTMachine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: name,
			OwnerReferences: []metav1.OwnerReference{SetReference(set)},
		},
		Spec: *set.Spec.Template.Spec.DeepCopy(),
	}
	m.Spec.ProviderID = ""
	InPlace(set, m)
	return m
}

// SetReference is the owner reference of a set's machines.
func SetReference(set *infrav1.CAPTMachineSet) metav1.OwnerReference {
	return *metav1.NewControllerRef(set, infrav1.GroupVersion.WithKind("CAPTMachineSet"))
}

// InPlace gives a machine what its set's template says and a running machine
// can take over. Labels and annotations that the template never had stay.
func InPlace(set *infrav1.CAPTMachineSet, m *infrav1.CAPTMachine) {
	template := set.Spec.Template.DeepCopy()
	m.Spec.Labels, m.Spec.Taints = template.Spec.Labels, template.Spec.Taints
	m.Spec.Tags, m.Spec.Drain = template.Spec.Tags, template.Spec.Drain

	var had provenance
	if text, found := m.Annotations[infrav1.TemplateMetadataAnnotation]; found {
		// What cannot be read is as if it had never been written.
		_ = json.Unmarshal([]byte(text), &had)
	}
	wanted := Labels(set)
	m.Labels = overlay(m.Labels, wanted, had.Labels)
	m.Annotations = overlay(m.Annotations, template.ObjectMeta.Annotations, had.Annotations)
	has := provenance{Labels: slices.Sorted(maps.Keys(wanted)), Annotations: slices.Sorted(maps.Keys(template.ObjectMeta.Annotations))}
	text, err := json.Marshal(has)
	if err != nil {
		return // Lists of strings marshal.
	}
	m.Annotations[infrav1.TemplateMetadataAnnotation] = string(text)
}

// overlay puts what is wanted over what there is, and removes what was put
// there before and is wanted no more.
func overlay(is, wanted map[string]string, had []string) map[string]string {
	result := map[string]string{}
	maps.Copy(result, is)
	for _, key := range had {
		delete(result, key)
	}
	maps.Copy(result, wanted)
	return result
}

// FullyLabelled tells whether a machine has every label that its set wants.
func FullyLabelled(set *infrav1.CAPTMachineSet, m *infrav1.CAPTMachine) bool {
	for key, value := range Labels(set) {
		if m.Labels[key] != value {
			return false
		}
	}
	return true
}
