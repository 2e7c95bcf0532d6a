package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// CAPTMachineSetFinalizer keeps a CAPTMachineSet until its machines are deleted.
const CAPTMachineSetFinalizer = "infrastructure.cluster.x-k8s.io/captmachineset"

// TemplateMetadataAnnotation lists, as JSON, the labels and annotations that a
// machine received from the template of its set, so that those the template no
// longer has can be removed.
const TemplateMetadataAnnotation = "capt.appthrust.io/template-metadata"

// Conditions of a CAPTMachineSet and their reasons.
const (
	// ReplicasInSyncCondition reports whether the number of machines is the desired one.
	ReplicasInSyncCondition = "ReplicasInSync"
	// ScalingUpReason surfaces while machines are being created.
	ScalingUpReason = "ScalingUp"
	// ScalingDownReason surfaces while machines are being deleted.
	ScalingDownReason = "ScalingDown"
	// CreationDisabledReason surfaces when machines are missing and the annotation
	// cluster.x-k8s.io/disable-machine-create prevents their creation, as on
	// the old sets of a deployment with the strategy OnDelete.
	CreationDisabledReason = "CreationDisabled"
	// SelectorMismatchReason surfaces when the selector does not match the
	// machines of the template.
	SelectorMismatchReason = "SelectorMismatch"
	// MachinesReadyCondition reports whether all machines are ready.
	MachinesReadyCondition = "MachinesReady"
	// MachinesNotReadyReason surfaces when some machines are not ready.
	MachinesNotReadyReason = "MachinesNotReady"
	// MachinesHealthyCondition reports whether no machine has been unhealthy for longer
	// than spec.healthCheck allows.
	MachinesHealthyCondition = "MachinesHealthy"
	// ReplacingUnhealthyReason surfaces when unhealthy machines are being replaced.
	ReplacingUnhealthyReason = "ReplacingUnhealthy"
	// TooManyUnhealthyReason surfaces when more machines are unhealthy than
	// spec.healthCheck.maxUnhealthy allows, so that none is replaced.
	TooManyUnhealthyReason = "TooManyUnhealthy"
	// HealthCheckOffReason surfaces when machines are unhealthy and the set has no
	// spec.healthCheck.
	HealthCheckOffReason = "HealthCheckOff"
)

// HealthCheck specifies which machines are replaced because their node does not work.
// A machine is unhealthy if its node is not ready, does not exist, or belongs to another
// instance than that of the machine. A machine with the annotation
// cluster.x-k8s.io/skip-remediation is not replaced.
type HealthCheck struct {
	// nodeStartupTimeout is how long the node of a new instance may take to join the
	// cluster. Defaults to 20m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('30s')",message="nodeStartupTimeout must be at least 30s, for example 20m"
	NodeStartupTimeout *metav1.Duration `json:"nodeStartupTimeout,omitempty"`

	// nodeUnhealthyTimeout is how long a node that has joined may be not ready or
	// missing. Defaults to 5m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('30s')",message="nodeUnhealthyTimeout must be at least 30s, for example 5m"
	NodeUnhealthyTimeout *metav1.Duration `json:"nodeUnhealthyTimeout,omitempty"`

	// maxUnhealthy is how many machines of the deployment, or of a set without one, may
	// be unhealthy at the same time, as a number or a percentage of its replicas, which is
	// rounded down. Less than one counts as one if at least half of the cluster's nodes are
	// ready. If more are, the cause is probably not in the machines, and none is replaced.
	// Defaults to 40%.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[0-9]{1,2})%$')",message="maxUnhealthy must be a number of 0 or more, or a percentage such as 40%"
	MaxUnhealthy *intstr.IntOrString `json:"maxUnhealthy,omitempty"`
}

// MachineTemplate is the template of the machines of a set.
// +kubebuilder:validation:XValidation:rule="!has(self.spec.providerID)",fieldPath=".spec.providerID",message="spec.providerID is set per machine: remove it from the template"
type MachineTemplate struct {
	// metadata is the metadata of each machine; its labels must match the selector.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the spec of each machine.
	// +required
	Spec CAPTMachineSpec `json:"spec"`
}

// CAPTMachineSetSpec specifies a number of identical machines.
// +kubebuilder:validation:XValidation:rule="self.clusterName == oldSelf.clusterName",fieldPath=".clusterName",message="clusterName cannot be changed: machines do not move to another cluster"
// +kubebuilder:validation:XValidation:rule="self.selector == oldSelf.selector",fieldPath=".selector",message="selector cannot be changed: create a new CAPTMachineSet"
type CAPTMachineSetSpec struct {
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

	// selector selects the machines of the set.
	// +required
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && self.matchExpressions.size() > 0)",message="selector must select something: set matchLabels"
	Selector metav1.LabelSelector `json:"selector"`

	// template is the template of the machines.
	// +required
	Template MachineTemplate `json:"template"`

	// deletePolicy chooses which machine is deleted first when the set scales down.
	// +optional
	// +kubebuilder:default=Random
	DeletePolicy MachineDeletePolicy `json:"deletePolicy,omitempty"`

	// healthCheck specifies which machines are replaced because their node does not
	// work. Without it, unhealthy machines are only reported; {} uses the defaults.
	// +optional
	HealthCheck *HealthCheck `json:"healthCheck,omitempty"`

	// minReadySeconds is how long a machine must be ready to be available.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`
}

// CAPTMachineSetStatus is the observed state of a set.
type CAPTMachineSetStatus struct {
	// conditions are the latest observations of the set.
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

	// readyReplicas is how many machines are ready.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// availableReplicas is how many machines have been ready for minReadySeconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`

	// fullyLabeledReplicas is how many machines carry all labels of the template.
	// +optional
	// +kubebuilder:validation:Minimum=0
	FullyLabeledReplicas *int32 `json:"fullyLabeledReplicas,omitempty"`
}

// CAPTMachineSet maintains a number of identical CAPTMachines.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:storageversion
// +kubebuilder:resource:path=captmachinesets,scope=Namespaced,shortName=captms,categories=cluster-api;capt
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterName`,description="Cluster this belongs to"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`,description="Desired machines"
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`,description="Machines there are"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`,description="Ready machines"
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`,description="Available machines"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What it waits for"
type CAPTMachineSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired set.
	// +required
	Spec CAPTMachineSetSpec `json:"spec"`

	// status is the observed state of the set.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status CAPTMachineSetStatus `json:"status,omitempty"`
}

// GetConditions returns the conditions.
func (s *CAPTMachineSet) GetConditions() []metav1.Condition { return s.Status.Conditions }

// SetConditions sets the conditions.
func (s *CAPTMachineSet) SetConditions(conditions []metav1.Condition) {
	s.Status.Conditions = conditions
}

// SetObservedGeneration sets the latest observed generation.
func (s *CAPTMachineSet) SetObservedGeneration(generation int64) {
	s.Status.ObservedGeneration = generation
}

// CAPTMachineSetList is a list of CAPTMachineSets.
//
// +kubebuilder:object:root=true
type CAPTMachineSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTMachineSet `json:"items"`
}
