package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CAPTMachineDeploymentFinalizer keeps a CAPTMachineDeployment until its sets
// are deleted.
const CAPTMachineDeploymentFinalizer = "infrastructure.cluster.x-k8s.io/captmachinedeployment"

// MachineTemplateHashLabel identifies the set of a deployment, on the set and on
// its machines. It is the hash of the fields that cannot change in place.
const MachineTemplateHashLabel = "capt.appthrust.io/machine-template-hash"

// Annotations that a deployment writes to its sets.
const (
	// RevisionAnnotation is the revision of a set of a deployment.
	RevisionAnnotation = "capt.appthrust.io/revision"
	// DesiredReplicasAnnotation is the desired number of machines of the deployment
	// when it last scaled the set; it distinguishes scaling from a rollout.
	DesiredReplicasAnnotation = "capt.appthrust.io/desired-replicas"
	// MaxReplicasAnnotation is the largest number of machines of the deployment when
	// it last scaled the set; proportional scaling uses it.
	MaxReplicasAnnotation = "capt.appthrust.io/max-replicas"
)

// Conditions of a CAPTMachineDeployment and their reasons.
const (
	// AvailableCondition reports whether enough machines are available.
	AvailableCondition = "Available"
	// NotEnoughMachinesReason surfaces when too few machines are available.
	NotEnoughMachinesReason = "NotEnoughMachines"
	// ProgressingCondition reports whether a rollout advances or is finished.
	ProgressingCondition = "Progressing"
	// RollingOutReason surfaces while machines are being replaced.
	RollingOutReason = "RollingOut"
	// WaitingForDeletionReason surfaces when machines of an old template must be
	// deleted by a user, because the strategy is OnDelete.
	WaitingForDeletionReason = "WaitingForDeletion"
	// RolloutCompleteReason surfaces when every machine is up to date.
	RolloutCompleteReason = "RolloutComplete"
	// ProgressDeadlineExceededReason surfaces when a rollout has not
	// progressed in time.
	ProgressDeadlineExceededReason = "ProgressDeadlineExceeded"
	// DeploymentPausedReason surfaces when the deployment is paused.
	DeploymentPausedReason = "DeploymentPaused"
	// InvalidStrategyReason surfaces when the limits of a rolling update cannot be
	// parsed.
	InvalidStrategyReason = "InvalidStrategy"
	// RevisionNotFoundReason surfaces when the revision to roll back to does not exist.
	RevisionNotFoundReason = "RevisionNotFound"
)

// MachineDeploymentStrategyType is how machines are replaced.
// +kubebuilder:validation:Enum=RollingUpdate;OnDelete
type MachineDeploymentStrategyType string

// The strategies to replace machines.
const (
	// RollingUpdateStrategy replaces machines step by step.
	RollingUpdateStrategy MachineDeploymentStrategyType = "RollingUpdate"
	// OnDeleteStrategy replaces a machine when it is deleted by another actor.
	OnDeleteStrategy MachineDeploymentStrategyType = "OnDelete"
)

// VersionPolicy is what happens when the control plane is upgraded.
// +kubebuilder:validation:Enum=Follow;Keep
type VersionPolicy string

// The version policies.
const (
	// VersionPolicyFollow replaces machines that are older than the control plane.
	VersionPolicyFollow VersionPolicy = "Follow"
	// VersionPolicyKeep keeps machines. Only the condition VersionCurrent reports
	// that they are older than the control plane.
	VersionPolicyKeep VersionPolicy = "Keep"
)

// MachineDeploymentStrategy is how machines are replaced.
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || !has(self.type) || self.type == 'RollingUpdate'",fieldPath=".rollingUpdate",message="rollingUpdate requires type: RollingUpdate: remove it, or change the type"
type MachineDeploymentStrategy struct {
	// type is how machines are replaced.
	// +optional
	// +kubebuilder:default=RollingUpdate
	Type MachineDeploymentStrategyType `json:"type,omitempty"`

	// rollingUpdate limits a rolling update.
	// +optional
	RollingUpdate *RollingUpdate `json:"rollingUpdate,omitempty"`
}

// CAPTMachineDeploymentSpec specifies a number of machines that are replaced when
// their template changes.
// +kubebuilder:validation:XValidation:rule="self.clusterName == oldSelf.clusterName",fieldPath=".clusterName",message="clusterName cannot be changed: machines do not move to another cluster"
// +kubebuilder:validation:XValidation:rule="self.selector == oldSelf.selector",fieldPath=".selector",message="selector cannot be changed: create a new CAPTMachineDeployment"
// +kubebuilder:validation:XValidation:rule="!has(self.progressDeadlineSeconds) || !has(self.minReadySeconds) || self.progressDeadlineSeconds > self.minReadySeconds",fieldPath=".progressDeadlineSeconds",message="progressDeadlineSeconds must be greater than minReadySeconds"
type CAPTMachineDeploymentSpec struct {
	// clusterName is the Cluster the machines belong to.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="clusterName must be the name of a Cluster: lower-case letters, digits and '-', for example production"
	ClusterName string `json:"clusterName"`

	// replicas is the desired number of machines.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Replicas *int32 `json:"replicas,omitempty"`

	// selector selects the sets and machines of the deployment.
	// +required
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && self.matchExpressions.size() > 0)",message="selector must select something: set matchLabels"
	Selector metav1.LabelSelector `json:"selector"`

	// template is the template of the machines.
	// +required
	Template MachineTemplate `json:"template"`

	// strategy is how machines are replaced when the template changes.
	// +optional
	// +kubebuilder:default={type: RollingUpdate}
	Strategy *MachineDeploymentStrategy `json:"strategy,omitempty"`

	// versionPolicy is what happens to the machines when the control plane is
	// upgraded, unless template.spec.version is set. With Follow they are replaced
	// by the strategy, after the upgrade is complete. Without a policy they are
	// replaced too, except for machines that were created before the version of the
	// control plane was known, and are older: these stay until the template is changed
	// or Follow is set.
	// +optional
	VersionPolicy VersionPolicy `json:"versionPolicy,omitempty"`

	// healthCheck specifies which machines of each set are replaced because their node
	// does not work. Without it, unhealthy machines are only reported; {} uses the
	// defaults.
	// +optional
	HealthCheck *HealthCheck `json:"healthCheck,omitempty"`

	// minReadySeconds is how long a machine must be ready to be available.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// revisionHistoryLimit is how many old sets are kept to roll back to.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// progressDeadlineSeconds is how long a rollout may take without progress
	// before it is reported.
	// +optional
	// +kubebuilder:default=1800
	// +kubebuilder:validation:Minimum=1
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// rollbackTo is the revision to return to. It is cleared when the template
	// of that revision is in place.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RollbackTo *int64 `json:"rollbackTo,omitempty"`

	// paused stops rollouts but not scaling.
	// +optional
	Paused *bool `json:"paused,omitempty"`
}

// CAPTMachineDeploymentStatus is the observed state of a deployment.
type CAPTMachineDeploymentStatus struct {
	// conditions are the latest observations of the deployment.
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

	// selector is the selector as text, for the scale subresource.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Selector string `json:"selector,omitempty"`

	// replicas is the number of machines.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// updatedReplicas is the number of machines of the current template.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UpdatedReplicas *int32 `json:"updatedReplicas,omitempty"`

	// readyReplicas is how many machines are ready.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// availableReplicas is how many machines have been ready for minReadySeconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`

	// unavailableReplicas is the number of machines that are not available.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UnavailableReplicas *int32 `json:"unavailableReplicas,omitempty"`

	// revision is the revision of the current template.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Revision int64 `json:"revision,omitempty"`

	// collisionCount resolves collisions of the names of sets.
	// +optional
	// +kubebuilder:validation:Minimum=0
	CollisionCount *int32 `json:"collisionCount,omitempty"`

	// lastProgressAt is when a rollout last advanced.
	// +optional
	LastProgressAt metav1.Time `json:"lastProgressAt,omitempty,omitzero"`
}

// CAPTMachineDeployment replaces its CAPTMachines step by step when their
// template changes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:storageversion
// +kubebuilder:resource:path=captmachinedeployments,scope=Namespaced,shortName=captmd,categories=cluster-api;capt
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterName`,description="Cluster this belongs to"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`,description="Desired machines"
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`,description="Machines there are"
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updatedReplicas`,description="Machines of the current template"
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`,description="Available machines"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What it waits for"
type CAPTMachineDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired deployment.
	// +required
	Spec CAPTMachineDeploymentSpec `json:"spec"`

	// status is the observed state of the deployment.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status CAPTMachineDeploymentStatus `json:"status,omitempty"`
}

// GetConditions returns the conditions.
func (d *CAPTMachineDeployment) GetConditions() []metav1.Condition { return d.Status.Conditions }

// SetConditions sets the conditions.
func (d *CAPTMachineDeployment) SetConditions(conditions []metav1.Condition) {
	d.Status.Conditions = conditions
}

// SetObservedGeneration sets the latest observed generation.
func (d *CAPTMachineDeployment) SetObservedGeneration(generation int64) {
	d.Status.ObservedGeneration = generation
}

// CAPTMachineDeploymentList is a list of CAPTMachineDeployments.
//
// +kubebuilder:object:root=true
type CAPTMachineDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTMachineDeployment `json:"items"`
}
