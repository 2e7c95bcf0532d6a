package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// WorkspacePlanSpec is what a plan would change, with values. Values that are secret are
// masked.
type WorkspacePlanSpec struct {
	// workspace is the name of the WorkspaceTemplateApply in this namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	Workspace string `json:"workspace"`

	// plan is the identity of the plan, as shown in status.plan.id of the workspace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Plan string `json:"plan"`

	// changes are the resources and outputs that the plan changes, with the attributes that
	// differ.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	Changes []Value `json:"changes,omitempty"`

	// omittedChanges is the number of changes that the list omits, because the object would
	// be too large.
	// +optional
	// +kubebuilder:validation:Minimum=0
	OmittedChanges int32 `json:"omittedChanges,omitempty"`
}

// WorkspacePlan shows what a plan of a workspace changes, with values, for users who decide about
// the plan and must not read Secrets. Its name is that of the run that made the plan. CAPT writes
// it and does not read it, for the latest plans that waited for a decision or changed existing
// resources.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=workspaceplans,singular=workspaceplan,scope=Namespaced,shortName=wsp,categories=capt
// +kubebuilder:printcolumn:name="Workspace",type=string,JSONPath=`.spec.workspace`,description="Workspace of the plan"
// +kubebuilder:printcolumn:name="Plan",type=string,JSONPath=`.spec.plan`,description="Identity of the plan"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
type WorkspacePlan struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the plan would change.
	// +required
	Spec WorkspacePlanSpec `json:"spec"`
}

// WorkspacePlanList is a list of WorkspacePlans.
//
// +kubebuilder:object:root=true
type WorkspacePlanList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkspacePlan `json:"items"`
}
