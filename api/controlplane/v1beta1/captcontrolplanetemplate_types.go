package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// CAPTControlPlaneTemplateSpec is a template of CAPTControlPlanes.
type CAPTControlPlaneTemplateSpec struct {
	// template is the template of each CAPTControlPlane. It cannot be changed:
	// create a new CAPTControlPlaneTemplate instead.
	// +required
	Template CAPTControlPlaneTemplateResource `json:"template"`
}

// CAPTControlPlaneTemplateResource is the template of each CAPTControlPlane.
type CAPTControlPlaneTemplateResource struct {
	// metadata is the metadata of each CAPTControlPlane.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the spec of each CAPTControlPlane. The version comes from the
	// Cluster's topology.
	// +required
	Spec CAPTControlPlaneTemplateResourceSpec `json:"spec"`
}

// CAPTControlPlaneTemplateResourceSpec is a CAPTControlPlane's spec without the
// fields that belong to one cluster.
type CAPTControlPlaneTemplateResourceSpec struct {
	// workspaceTemplateRef names the WorkspaceTemplate of the control plane.
	// +required
	WorkspaceTemplateRef infrav1.TemplateReference `json:"workspaceTemplateRef"`

	// controlPlaneConfig holds values for variables of the template.
	// +optional
	ControlPlaneConfig *ControlPlaneConfig `json:"controlPlaneConfig,omitempty"`

	// additionalTags are tags of everything the template creates (variable tags).
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	AdditionalTags map[string]string `json:"additionalTags,omitempty"`

	// variables are further values for the template's variables.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Variables map[string]infrav1.Value `json:"variables,omitempty"`

	// workspace has settings of the workspace that CAPT creates for the control plane.
	// +optional
	Workspace *infrav1.WorkspaceSettings `json:"workspace,omitempty"`

	// kubeconfig specifies how the kubeconfig is created. Defaults to EKS.
	// +optional
	// +kubebuilder:default={source: EKS}
	Kubeconfig *KubeconfigConfig `json:"kubeconfig,omitempty"`

	// spotServiceLinkedRole specifies whether CAPT creates the account-wide EC2 Spot
	// service-linked role. CAPT never deletes it. Defaults to Ensure with
	// kubeconfig source EKS, and to Skip otherwise.
	// +optional
	SpotServiceLinkedRole SpotRolePolicy `json:"spotServiceLinkedRole,omitempty"`

	// deletion specifies what is deleted with the cluster, apart from what Terraform
	// created.
	// +optional
	Deletion *DeletionPolicy `json:"deletion,omitempty"`
}

// CAPTControlPlaneTemplate is a template of CAPTControlPlanes, for ClusterClasses.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta1"
// +kubebuilder:resource:path=captcontrolplanetemplates,scope=Namespaced,shortName=captcpt,categories=cluster-api;capt
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.template.spec.workspaceTemplateRef.name`,description="Template of the control plane"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
type CAPTControlPlaneTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired template.
	// +required
	Spec CAPTControlPlaneTemplateSpec `json:"spec"`
}

// CAPTControlPlaneTemplateList is a list of CAPTControlPlaneTemplates.
//
// +kubebuilder:object:root=true
type CAPTControlPlaneTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTControlPlaneTemplate `json:"items"`
}
