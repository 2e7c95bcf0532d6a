package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Conditions of a CAPTBootstrapConfig and their reasons.
const (
	// DataSecretAvailableCondition reports whether the Secret with the bootstrap
	// data exists.
	DataSecretAvailableCondition = "DataSecretAvailable"
	// WaitingForOwnerReason surfaces when neither a Machine nor a MachinePool
	// owns the config yet.
	WaitingForOwnerReason = "WaitingForOwner"
	// SecretConflictReason surfaces when a Secret of the wanted name belongs to
	// another owner.
	SecretConflictReason = "SecretConflict"
)

// Format is the format of bootstrap data.
// +kubebuilder:validation:Enum=cloud-config;ignition
type Format string

// The formats of bootstrap data.
const (
	// FormatCloudConfig is the format of cloud-init.
	FormatCloudConfig Format = "cloud-config"
	// FormatIgnition is the format of Ignition.
	FormatIgnition Format = "ignition"
)

// CAPTBootstrapConfigSpec specifies the data that a node reads when it starts.
// +kubebuilder:validation:XValidation:rule="!has(self.format) || has(self.userData)",fieldPath=".format",message="format describes userData: set userData, or remove format"
type CAPTBootstrapConfigSpec struct {
	// userData is used as bootstrap data without changes. If it is empty, the
	// bootstrap data are empty and the WorkspaceTemplate makes nodes join. Do not
	// put secrets here: every reader of this object can read them. The data of a
	// Machine never change; a change reaches only the new nodes of a MachinePool.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	UserData string `json:"userData,omitempty"`

	// format is the format of userData. It is written to the key format of the
	// Secret.
	// +optional
	Format Format `json:"format,omitempty"`
}

// InitializationStatus is part of Cluster API's contract.
// +kubebuilder:validation:MinProperties=1
type InitializationStatus struct {
	// dataSecretCreated becomes true once, when the Secret with the bootstrap
	// data exists.
	// +optional
	DataSecretCreated *bool `json:"dataSecretCreated,omitempty"`
}

// CAPTBootstrapConfigStatus is the observed state of bootstrap data.
type CAPTBootstrapConfigStatus struct {
	// initialization is part of Cluster API's contract.
	// +optional
	Initialization InitializationStatus `json:"initialization,omitempty,omitzero"`

	// conditions are the latest observations of the config.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the latest generation that the controller has observed. It is
	// -1 until then.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// dataSecretName is the Secret that holds the bootstrap data.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DataSecretName string `json:"dataSecretName,omitempty"`
}

// CAPTBootstrapConfig provides the bootstrap data of nodes whose
// WorkspaceTemplate makes them join the cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta1"
// +kubebuilder:resource:path=captbootstrapconfigs,scope=Namespaced,shortName=captbc,categories=cluster-api;capt
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`,description="Cluster this belongs to"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the bootstrap data are there"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why they are not"
// +kubebuilder:printcolumn:name="Secret",type=string,JSONPath=`.status.dataSecretName`,description="Secret with the bootstrap data"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What it waits for"
type CAPTBootstrapConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec specifies the data that a node reads when it starts.
	// +optional
	Spec CAPTBootstrapConfigSpec `json:"spec,omitempty"`

	// status is the observed state of the bootstrap data.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status CAPTBootstrapConfigStatus `json:"status,omitempty"`
}

// GetConditions returns the conditions.
func (c *CAPTBootstrapConfig) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions sets the conditions.
func (c *CAPTBootstrapConfig) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// SetObservedGeneration sets the latest observed generation.
func (c *CAPTBootstrapConfig) SetObservedGeneration(generation int64) {
	c.Status.ObservedGeneration = generation
}

// CAPTBootstrapConfigList is a list of CAPTBootstrapConfigs.
//
// +kubebuilder:object:root=true
type CAPTBootstrapConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTBootstrapConfig `json:"items"`
}

// CAPTBootstrapConfigTemplateSpec is a template of CAPTBootstrapConfigs.
type CAPTBootstrapConfigTemplateSpec struct {
	// template is the template of each CAPTBootstrapConfig. It cannot be
	// changed: create a new CAPTBootstrapConfigTemplate instead.
	// +required
	Template CAPTBootstrapConfigTemplateResource `json:"template"`
}

// CAPTBootstrapConfigTemplateResource is the template of each
// CAPTBootstrapConfig.
type CAPTBootstrapConfigTemplateResource struct {
	// metadata is the metadata of each CAPTBootstrapConfig.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the spec of each CAPTBootstrapConfig.
	// +optional
	Spec CAPTBootstrapConfigSpec `json:"spec,omitempty"`
}

// CAPTBootstrapConfigTemplate is a template of CAPTBootstrapConfigs, for Cluster
// API's MachineDeployments and for ClusterClasses, which require one for each
// class of workers.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta1"
// +kubebuilder:resource:path=captbootstrapconfigtemplates,scope=Namespaced,shortName=captbct,categories=cluster-api;capt
// +kubebuilder:printcolumn:name="Format",type=string,JSONPath=`.spec.template.spec.format`,description="What the bootstrap data are"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
type CAPTBootstrapConfigTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired template.
	// +required
	Spec CAPTBootstrapConfigTemplateSpec `json:"spec"`
}

// CAPTBootstrapConfigTemplateList is a list of CAPTBootstrapConfigTemplates.
//
// +kubebuilder:object:root=true
type CAPTBootstrapConfigTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTBootstrapConfigTemplate `json:"items"`
}
