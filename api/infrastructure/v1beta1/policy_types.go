package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// PolicyDeniedReason surfaces when a policy denies a plan. Nothing is applied until
	// the inputs or the policies change, or a run is requested.
	PolicyDeniedReason = "PolicyDenied"
	// PolicyViolatedReason is the reason of the event about a plan that violates a policy.
	PolicyViolatedReason = "PolicyViolated"
)

// PolicyAction specifies what happens to a plan that violates a rule.
// +kubebuilder:validation:Enum=Deny;RequireApproval;Warn
type PolicyAction string

// The actions of a rule.
const (
	// PolicyDeny never applies the plan.
	PolicyDeny PolicyAction = "Deny"
	// PolicyRequireApproval applies the plan when a user has approved it.
	PolicyRequireApproval PolicyAction = "RequireApproval"
	// PolicyWarn only reports the violation.
	PolicyWarn PolicyAction = "Warn"
)

// PolicyMatch specifies what a rule is evaluated for.
// +kubebuilder:validation:Enum=EachChange;Plan
type PolicyMatch string

// What a rule is evaluated for.
const (
	// PolicyMatchEachChange evaluates the rule for each change of a resource.
	PolicyMatchEachChange PolicyMatch = "EachChange"
	// PolicyMatchPlan evaluates the rule once for the whole plan.
	PolicyMatchPlan PolicyMatch = "Plan"
)

// PolicyRule is a condition that a plan must not fulfil.
// +kubebuilder:validation:XValidation:rule="has(self.message) || has(self.messageExpression)",message="set message or messageExpression: users see it instead of the expression"
type PolicyRule struct {
	// name identifies the rule in messages.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="name must consist of lower-case letters, digits and '-', for example keep-vpc"
	Name string `json:"name"`

	// match specifies what the rule is evaluated for. EachChange evaluates it for each
	// change of a resource, with the variable resource and its values. Plan evaluates
	// it once, with plan.resourceChanges and plan.outputs; the changes there have no
	// values. Defaults to EachChange.
	// +optional
	// +kubebuilder:default=EachChange
	Match PolicyMatch `json:"match,omitempty"`

	// action specifies what happens to a plan that violates the rule: Deny never applies
	// it, RequireApproval applies it when a user has approved it, Warn only reports it.
	// +required
	Action PolicyAction `json:"action"`

	// expression is a CEL expression that is true if the plan violates the rule. A rule
	// that cannot be evaluated is violated. The variables are resource, plan, workspace
	// and template.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expression string `json:"expression"`

	// message describes the violation to users.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// messageExpression is a CEL expression that returns the message. It has the same
	// variables as expression. If it cannot be evaluated, message is used.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	MessageExpression string `json:"messageExpression,omitempty"`
}

// WorkspacePolicySpec decides about the plans of workspaces.
type WorkspacePolicySpec struct {
	// selector selects workspaces of this namespace by their labels. Without it, the
	// policy applies to all of them.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// rules are the conditions that no plan of these workspaces must fulfil.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Rules []PolicyRule `json:"rules"`
}

// WorkspacePolicy decides about the plans of the workspaces in its namespace: it denies
// them, requires approval, or warns. It applies to the next plan and starts no run.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:resource:path=workspacepolicies,singular=workspacepolicy,scope=Namespaced,shortName=wspol,categories=capt
// +kubebuilder:printcolumn:name="Rules",type=string,JSONPath=`.spec.rules[*].name`,description="Names of the rules"
// +kubebuilder:printcolumn:name="Actions",type=string,priority=1,JSONPath=`.spec.rules[*].action`,description="Actions of the rules"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
type WorkspacePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec decides about the plans of workspaces.
	// +required
	Spec WorkspacePolicySpec `json:"spec"`
}

// WorkspacePolicyList is a list of WorkspacePolicies.
//
// +kubebuilder:object:root=true
type WorkspacePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkspacePolicy `json:"items"`
}

// ClusterWorkspacePolicySpec decides about the plans of workspaces in all namespaces.
type ClusterWorkspacePolicySpec struct {
	// namespaceSelector selects namespaces by their labels. Without it, the policy
	// applies to all namespaces.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// selector selects workspaces by their labels. Without it, the policy applies to all
	// workspaces of the namespaces.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// rules are the conditions that no plan of these workspaces must fulfil.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Rules []PolicyRule `json:"rules"`
}

// ClusterWorkspacePolicy decides about the plans of workspaces in all namespaces, or in
// those that it selects. It applies to the next plan and starts no run.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:resource:path=clusterworkspacepolicies,singular=clusterworkspacepolicy,scope=Cluster,shortName=cwspol,categories=capt
// +kubebuilder:printcolumn:name="Rules",type=string,JSONPath=`.spec.rules[*].name`,description="Names of the rules"
// +kubebuilder:printcolumn:name="Actions",type=string,priority=1,JSONPath=`.spec.rules[*].action`,description="Actions of the rules"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
type ClusterWorkspacePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec decides about the plans of workspaces.
	// +required
	Spec ClusterWorkspacePolicySpec `json:"spec"`
}

// ClusterWorkspacePolicyList is a list of ClusterWorkspacePolicies.
//
// +kubebuilder:object:root=true
type ClusterWorkspacePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterWorkspacePolicy `json:"items"`
}

// PolicyViolation is a rule of a policy that a plan violates.
type PolicyViolation struct {
	// kind is the kind of the policy.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// policy is the name of the policy.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Policy string `json:"policy"`

	// generation is the generation of the policy that decided.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Generation int64 `json:"generation,omitempty"`

	// rule is the name of the rule.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Rule string `json:"rule"`

	// action is what the rule does.
	// +required
	Action PolicyAction `json:"action"`

	// message describes the violation.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`

	// resources are the addresses of the first resources that violate the rule.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Resources []string `json:"resources,omitempty"`

	// count is the number of resources that violate the rule.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Count int32 `json:"count,omitempty"`
}
