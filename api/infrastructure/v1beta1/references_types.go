package v1beta1

import "k8s.io/apimachinery/pkg/types"

// TemplateReference names a WorkspaceTemplate.
type TemplateReference struct {
	// name is the name of the WorkspaceTemplate.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$')",message="name must be the name of an object: lower-case letters, digits, '-' and '.', for example eks-vpc"
	Name string `json:"name"`

	// namespace is the namespace of the WorkspaceTemplate. Defaults to the namespace of
	// the object that refers to it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace must be the name of a namespace: lower-case letters, digits and '-', for example team-a"
	Namespace string `json:"namespace,omitempty"`
}

// Key returns the namespace and name of the WorkspaceTemplate that an object in
// the given namespace refers to.
func (r TemplateReference) Key(namespace string) types.NamespacedName {
	if r.Namespace != "" {
		namespace = r.Namespace
	}
	return types.NamespacedName{Namespace: namespace, Name: r.Name}
}

// ObjectReference names an object of a known kind.
type ObjectReference struct {
	// name is the name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// namespace is the namespace of the object. Defaults to the namespace of the object
	// that refers to it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace must be the name of a namespace: lower-case letters, digits and '-', for example team-a"
	Namespace string `json:"namespace,omitempty"`
}

// LocalReference names an object in the same namespace.
type LocalReference struct {
	// name is the name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$')",message="name must be the name of an object: lower-case letters, digits, '-' and '.', for example aws-production"
	Name string `json:"name"`
}

// KeyReference names one key of a Secret or ConfigMap.
type KeyReference struct {
	// name is the name of the Secret or ConfigMap.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// namespace is the namespace of the Secret or ConfigMap. Only the namespace of
	// the workspace is allowed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace must be the name of a namespace: lower-case letters, digits and '-', for example team-a"
	Namespace string `json:"namespace,omitempty"`

	// key is the key whose value is used.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="key must be a key of a Secret or ConfigMap: letters, digits, '-', '_' and '.'"
	Key string `json:"key"`
}
