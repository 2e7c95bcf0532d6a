package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ApprovalDecision is what a user decided about a plan.
// +kubebuilder:validation:Enum=Approve;Reject
type ApprovalDecision string

const (
	// DecisionApprove lets the plan be applied.
	DecisionApprove ApprovalDecision = "Approve"
	// DecisionReject keeps the plan from being applied.
	DecisionReject ApprovalDecision = "Reject"
)

// OwnChange reports whether a user decides about a change of his own.
// +kubebuilder:validation:Enum="Yes";"No"
type OwnChange string

const (
	// OwnChangeYes means that the user made the change, or that it is not known who did.
	OwnChangeYes OwnChange = "Yes"
	// OwnChangeNo means that another user made the change.
	OwnChangeNo OwnChange = "No"
)

// WorkspaceApprovalSpec is the decision about a plan. It cannot be changed: another decision
// is another object, and the latest one counts.
type WorkspaceApprovalSpec struct {
	// workspace is the name of the WorkspaceTemplateApply in this namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$')",message="workspace must be the name of a WorkspaceTemplateApply: lower-case letters, digits, '-' and '.', for example network"
	Workspace string `json:"workspace"`

	// plan is the identity of the plan, as shown in status.plan.id of the workspace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^plan-[0-9a-f]{16}$')",message="plan must be a plan's identity as shown in status.plan.id, for example plan-0123456789abcdef"
	Plan string `json:"plan"`

	// decision is Approve or Reject.
	// +required
	Decision ApprovalDecision `json:"decision"`

	// allowDestroy are the addresses of protected resources that this plan may destroy or
	// replace.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	AllowDestroy []string `json:"allowDestroy,omitempty"`

	// comment is shown with the plan.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Comment string `json:"comment,omitempty"`

	// workspaceUID is the UID of the workspace. CAPT sets it: the decision does not count for
	// a workspace of the same name that is created later.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=63
	WorkspaceUID types.UID `json:"workspaceUID,omitempty"`

	// decidedBy is the user who created this object. CAPT sets it.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	DecidedBy string `json:"decidedBy,omitempty"`

	// ownChange is Yes if the user who created this object changed or deleted the workspace
	// last, or requested the plan, or if that is not known. Such an approval requires the verb
	// approve-own. CAPT sets it.
	// +optional
	OwnChange OwnChange `json:"ownChange,omitempty"`
}

// WorkspaceApproval approves or rejects a plan of a workspace.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=workspaceapprovals,singular=workspaceapproval,scope=Namespaced,shortName=wsa,categories=capt
// +kubebuilder:printcolumn:name="Workspace",type=string,JSONPath=`.spec.workspace`,description="Workspace of the plan"
// +kubebuilder:printcolumn:name="Plan",type=string,JSONPath=`.spec.plan`,description="Plan that was decided about"
// +kubebuilder:printcolumn:name="Decision",type=string,JSONPath=`.spec.decision`,description="Approve or Reject"
// +kubebuilder:printcolumn:name="By",type=string,JSONPath=`.spec.decidedBy`,description="User who decided"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the decision"
// +kubebuilder:printcolumn:name="Comment",type=string,priority=1,JSONPath=`.spec.comment`,description="What the user wrote about it"
type WorkspaceApproval struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the decision.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a decision cannot be changed: create another WorkspaceApproval, the latest one counts"
	// +kubebuilder:validation:XValidation:rule="self.decision == 'Approve' || !has(self.allowDestroy)",message="allowDestroy belongs to decision Approve: remove it, or write decision: Approve"
	Spec WorkspaceApprovalSpec `json:"spec"`
}

// WorkspaceApprovalList is a list of WorkspaceApprovals.
//
// +kubebuilder:object:root=true
type WorkspaceApprovalList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkspaceApproval `json:"items"`
}
