package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NotGrantedReason surfaces when an object refers to an object of another namespace
// without a CAPTReferenceGrant there.
const NotGrantedReason = "NotGranted"

// CAPTReferenceGrantSpec is what other namespaces may use.
type CAPTReferenceGrantSpec struct {
	// from are the namespaces that may refer to objects of this namespace.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	From []ReferenceGrantFrom `json:"from"`

	// to are the objects that they may refer to.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	To []ReferenceGrantTo `json:"to"`
}

// ReferenceGrantFrom selects namespaces by name or by their labels.
// +kubebuilder:validation:XValidation:rule="has(self.namespaces) != has(self.namespaceSelector)",message="set either namespaces or namespaceSelector"
type ReferenceGrantFrom struct {
	// namespaces are the names of namespaces.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`

	// namespaceSelector selects namespaces by their labels. An empty selector selects
	// all namespaces.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// GrantedKind is a kind of object that a grant covers.
// +kubebuilder:validation:Enum=WorkspaceTemplate;WorkspaceProviderConfig;WorkspaceTemplateApply;CAPTAddon;Secret;ConfigMap
type GrantedKind string

// The kinds that a grant covers.
const (
	// GrantedWorkspaceTemplate lets others run the modules of templates.
	GrantedWorkspaceTemplate GrantedKind = "WorkspaceTemplate"
	// GrantedWorkspaceProviderConfig lets templates of this namespace use their provider
	// configs for workspaces of others. Such workspaces run in this namespace, so that
	// others cannot read the credentials.
	GrantedWorkspaceProviderConfig GrantedKind = "WorkspaceProviderConfig"
	// GrantedWorkspaceTemplateApply lets others wait for workspaces.
	GrantedWorkspaceTemplateApply GrantedKind = "WorkspaceTemplateApply"
	// GrantedCAPTAddon installs add-ons in the clusters of others.
	GrantedCAPTAddon GrantedKind = "CAPTAddon"
	// GrantedSecret lets templates of others, which run in this namespace, name its Secrets.
	GrantedSecret GrantedKind = "Secret"
	// GrantedConfigMap lets templates of others, which run in this namespace, name its
	// ConfigMaps.
	GrantedConfigMap GrantedKind = "ConfigMap"
)

// ReferenceGrantTo are objects of one kind.
type ReferenceGrantTo struct {
	// kind is the kind of the objects.
	// +required
	Kind GrantedKind `json:"kind"`

	// name is the name of one object. Without it, the grant covers all objects of the
	// kind in this namespace.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// CAPTReferenceGrant lets objects of other namespaces refer to objects of its namespace.
// Without a grant, such references wait with the reason NotGranted. A deleted grant stops
// new runs and destroys nothing.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:resource:path=captreferencegrants,singular=captreferencegrant,scope=Namespaced,shortName=cptrg,categories=capt
// +kubebuilder:printcolumn:name="To",type=string,JSONPath=`.spec.to[*].kind`,description="Kinds of the objects that others may refer to"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
type CAPTReferenceGrant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what other namespaces may use.
	// +required
	Spec CAPTReferenceGrantSpec `json:"spec"`
}

// CAPTReferenceGrantList is a list of CAPTReferenceGrants.
//
// +kubebuilder:object:root=true
type CAPTReferenceGrantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTReferenceGrant `json:"items"`
}
