package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// ClusterValue is a value of a Cluster for placeholders.
// +kubebuilder:validation:XValidation:rule="[has(self.label), has(self.annotation), has(self.variable)].filter(x, x).size() == 1",message="set exactly one of label, annotation and variable"
type ClusterValue struct {
	// name is the name of the placeholder.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Z][A-Z0-9_]*$') && !(self in ['WORKSPACE_NAME', 'CLUSTER_NAME', 'CLUSTER_NAMESPACE', 'KUBERNETES_VERSION'])",message="name must contain only upper-case letters, digits and '_', for example TEAM, and must not be that of a placeholder that every cluster has"
	Name string `json:"name"`

	// label is the key of a label of the Cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Label string `json:"label,omitempty"`

	// annotation is the key of an annotation of the Cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Annotation string `json:"annotation,omitempty"`

	// variable is the name of a variable in spec.topology of the Cluster. A value that is
	// not a string is JSON.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Variable string `json:"variable,omitempty"`

	// default is used for a Cluster without the label, annotation or variable.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Default *string `json:"default,omitempty"`
}

// ValuesOverride changes the values of a chart in some clusters.
type ValuesOverride struct {
	// clusterSelector selects the Clusters by label. Each counts as having the label
	// capt.appthrust.io/cluster with its name.
	// +required
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && self.matchExpressions.size() > 0)",message="clusterSelector must select something: set matchLabels, for example environment: production"
	ClusterSelector metav1.LabelSelector `json:"clusterSelector"`

	// values are merged over those of the add-on: objects by key, anything else as a
	// whole. ${...} in them is resolved.
	// +required
	// +kubebuilder:validation:Type=object
	Values infrav1.Value `json:"values"`
}
