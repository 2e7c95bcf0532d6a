package v1beta1

// TaintEffect is the effect of a taint on pods that do not tolerate it.
// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
type TaintEffect string

// Taint is a taint of a node.
type Taint struct {
	// key is the taint's key.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="key must be a taint key such as dedicated or example.com/dedicated"
	Key string `json:"key"`

	// value is the taint's value.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="value must be a label value: letters, digits, '-', '_' and '.', for example gpu"
	Value string `json:"value,omitempty"`

	// effect is the effect on pods that do not tolerate the taint.
	// +required
	Effect TaintEffect `json:"effect"`
}
