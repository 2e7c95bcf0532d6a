package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// CAPTMachineFinalizer keeps a CAPTMachine until its node is destroyed.
const CAPTMachineFinalizer = "infrastructure.cluster.x-k8s.io/captmachine"

// NodeSettingsAnnotation lists, as JSON, the labels and taints that CAPT has set on a
// Node, so that those the CAPTMachine no longer has can be removed.
const NodeSettingsAnnotation = "capt.appthrust.io/node-settings"

// Conditions of a CAPTMachine and their reasons.
const (
	// InstanceReadyCondition reports whether the machine's workspace is applied.
	InstanceReadyCondition = "InstanceReady"
	// UpdatingReason surfaces when the instance exists and is being changed in place.
	UpdatingReason = "Updating"
	// WaitingForMachineReason surfaces when the Machine that owns the CAPTMachine
	// does not exist yet.
	WaitingForMachineReason = "WaitingForMachine"
	// WaitingForInfrastructureReason surfaces when the infrastructure of the
	// cluster is not provisioned yet.
	WaitingForInfrastructureReason = "WaitingForInfrastructure"
	// WaitingForControlPlaneReason surfaces when the control plane is not initialised yet.
	WaitingForControlPlaneReason = "WaitingForControlPlane"
	// WaitingForTeardownReason surfaces when the Cluster is being deleted and what
	// controllers of the cluster created in the cloud still exists.
	WaitingForTeardownReason = "WaitingForTeardown"
	// WaitingForBootstrapDataReason surfaces when the bootstrap data of the
	// Machine or MachinePool do not exist yet.
	WaitingForBootstrapDataReason = "WaitingForBootstrapData"
	// WaitingForNodeGroupReason surfaces when the CAPTMachinePool whose settings
	// the node shares does not exist yet.
	WaitingForNodeGroupReason = "WaitingForNodeGroup"
	// MissingOutputReason surfaces when the template has no output of a required name.
	MissingOutputReason = "MissingOutput"
	// WaitingForProviderIDReason surfaces until Cluster API has observed the
	// instance and the provider IDs of nodes can be read.
	WaitingForProviderIDReason = "WaitingForProviderID"
	// ProviderIDChangedReason surfaces when the workspace replaced the instance
	// behind a machine, which must not change: delete the machine.
	ProviderIDChangedReason = "ProviderIDChanged"
	// NodeReadyCondition reports whether the machine's node exists and is ready. It
	// counts towards Ready unless a Cluster API Machine owns the machine, because
	// that watches the node itself.
	NodeReadyCondition = "NodeReady"
	// WaitingForNodeReason surfaces when the node has not joined yet.
	WaitingForNodeReason = "WaitingForNode"
	// NodeNotReadyReason surfaces when the node exists but is not ready.
	NodeNotReadyReason = "NodeNotReady"
	// WorkloadClusterUnreachableReason surfaces when the workload cluster is
	// unreachable.
	WorkloadClusterUnreachableReason = "WorkloadClusterUnreachable"
	// NodeUpdatedCondition reports whether the Node has the labels and taints of the
	// machine.
	NodeUpdatedCondition = "NodeUpdated"
	// NodeUpdateRejectedReason surfaces when the workload cluster rejects a change of
	// the Node.
	NodeUpdateRejectedReason = "NodeUpdateRejected"
	// DrainedCondition reports, while the machine is being deleted, whether its
	// node is drained or does not need to be.
	DrainedCondition = "Drained"
	// DrainingReason surfaces while pods are being evicted from the node.
	DrainingReason = "Draining"
	// DrainSkippedReason surfaces when the node is not drained; the message says
	// why.
	DrainSkippedReason = "DrainSkipped"
	// DrainTimedOutReason surfaces when the drain timed out and the machine is
	// deleted anyway.
	DrainTimedOutReason = "DrainTimedOut"
	// NodeGoneReason surfaces when the node does not exist.
	NodeGoneReason = "NodeGone"
)

// DrainPolicy specifies how a node is drained before its machine is deleted. A
// user ends a blocked drain by mode Skip, by a timeout, or by the annotation
// machine.cluster.x-k8s.io/exclude-node-draining. Nodes are not drained when the
// whole cluster is deleted.
// +kubebuilder:validation:MinProperties=1
type DrainPolicy struct {
	// mode specifies whether the node is drained. Defaults to Drain.
	// +optional
	Mode DrainMode `json:"mode,omitempty"`

	// timeout is how long the drain may take before the machine is deleted
	// anyway. Without it there is no limit.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1s')",message="timeout must be at least 1s, for example 5m; remove it to wait without limit"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// DrainMode specifies whether a node is drained.
// +kubebuilder:validation:Enum=Drain;Skip
type DrainMode string

// The drain modes.
const (
	// DrainModeDrain cordons the node and evicts its pods.
	DrainModeDrain DrainMode = "Drain"
	// DrainModeSkip does not evict pods before the node is destroyed.
	DrainModeSkip DrainMode = "Skip"
)

// CAPTMachineSpec specifies one node.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || (has(self.providerID) && self.providerID == oldSelf.providerID)",fieldPath=".providerID",message="providerID cannot be changed once it is set: create a new CAPTMachine"
type CAPTMachineSpec struct {
	// workspaceTemplateRef names the WorkspaceTemplate of the node.
	//
	// Besides the variables of the fields below, it receives name and
	// cluster_name and, if it declares them, region, vpc_id, subnet_ids,
	// kubernetes_version (a minor such as 1.33), kubernetes_full_version (that of the
	// Cluster API Machine, such as 1.33.5), bootstrap_secret_name, and any variable with
	// the name of an output of the control plane's workspace, such as
	// cluster_endpoint, or of that of the CAPTCluster's workspaceTemplateRef. These values
	// are fixed when the node is created; later changes affect new nodes only.
	//
	// bootstrap_secret_name names the Secret with the bootstrap data of any bootstrap
	// provider. The data are secret, so a template reads them by a secretKeyRef of vars or
	// env whose name is ${bootstrap_secret_name} and whose key is value.
	//
	// Its outputs are provider_id (required), node_name, availability_zone and
	// addresses, a list of objects with type and address.
	// +required
	WorkspaceTemplateRef TemplateReference `json:"workspaceTemplateRef"`

	// instanceType is the node's instance type (variable instance_type).
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9][a-z0-9.-]*$')",message="instanceType must be the name of an instance type such as m7g.large"
	InstanceType string `json:"instanceType,omitempty"`

	// version is the Kubernetes version of the node, such as 1.34 (variable
	// kubernetes_version, of which the minor version is used). Defaults to that of
	// the control plane when the node is created. A Cluster API Machine's version
	// overrides it. A change affects new nodes only.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^v?[0-9]{1,4}[.][0-9]{1,4}([.][0-9]+)?([-+][-+.0-9A-Za-z]*)?$')",message="version must be a Kubernetes version such as 1.34 or v1.34.2"
	Version string `json:"version,omitempty"`

	// nodeGroupRef names the CAPTMachinePool whose settings the node shares: its
	// labels, taints and tags, which the node's own extend and override, its first
	// instance type unless the node has one, and its amiType, capacityType and
	// diskSizeGiB if the template declares them. The node is not a member of the
	// pool.
	// +optional
	NodeGroupRef *LocalReference `json:"nodeGroupRef,omitempty"`

	// labels are labels of the node (variable labels).
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`

	// taints are taints of the node (variable taints, a list of objects with key,
	// value and effect in the spelling of Kubernetes, such as NoSchedule).
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MaxItems=50
	Taints []Taint `json:"taints,omitempty"`

	// tags are tags of the instance (variable tags).
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	Tags map[string]string `json:"tags,omitempty"`

	// variables are further values for the template's variables.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Variables map[string]Value `json:"variables,omitempty"`

	// workspace has settings of the workspace that CAPT creates for the node. It can be changed.
	// +optional
	Workspace *WorkspaceSettings `json:"workspace,omitempty"`

	// drain specifies how the node is drained if no Cluster API Machine drains it.
	// +optional
	Drain *DrainPolicy `json:"drain,omitempty"`

	// failureDomain is the zone the node is in (variable availability_zone).
	// A Cluster API Machine's failure domain overrides it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// providerID is the provider ID of the node, from the output provider_id.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`
}

// NodeProblem is a reason why the node of a machine does not work.
type NodeProblem struct {
	// reason is WaitingForNode if the node has never joined the cluster, NodeGone if it
	// does not exist anymore, NodeNotReady, or ProviderIDChanged if the machine's
	// instance was replaced.
	// +required
	// +kubebuilder:validation:Enum=WaitingForNode;NodeGone;NodeNotReady;ProviderIDChanged
	Reason string `json:"reason"`

	// since is when the problem was first observed. Interruptions in which the cluster did
	// not answer do not change it.
	// +required
	Since metav1.Time `json:"since"`
}

// CAPTMachineStatus is the observed state of a node.
type CAPTMachineStatus struct {
	// initialization is part of Cluster API's contract.
	// +optional
	Initialization InitializationStatus `json:"initialization,omitempty,omitzero"`

	// conditions are the latest observations of the machine.
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

	// addresses are the addresses of the node.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`

	// failureDomain is the zone the node is in.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// nodeName is the name of the node in the cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName,omitempty"`

	// nodeProblem is why the node does not work. It is empty if the node works, and stays
	// as it is while the cluster does not answer. A CAPTMachineSet with spec.healthCheck
	// replaces the machine if the problem lasts and the cluster confirms it.
	// +optional
	NodeProblem *NodeProblem `json:"nodeProblem,omitempty"`

	// version is the version of the node's kubelet.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// workspaceRef names the WorkspaceTemplateApply of the machine.
	// +optional
	WorkspaceRef *LocalReference `json:"workspaceRef,omitempty"`
}

// CAPTMachine is one node.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta1"
// +kubebuilder:resource:path=captmachines,scope=Namespaced,shortName=captm,categories=cluster-api;capt
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`,description="Cluster this belongs to"
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.nodeName`,description="Node in the cluster"
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.instanceType`,description="Instance type"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`,description="Kubernetes version of the node"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the node is there"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is not"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:printcolumn:name="Provider ID",type=string,priority=1,JSONPath=`.spec.providerID`,description="Provider ID of the node"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What it waits for"
type CAPTMachine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired node. Only labels, taints, tags, drain and workspace can be changed.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.workspaceTemplateRef == oldSelf.workspaceTemplateRef",fieldPath=".workspaceTemplateRef",message="workspaceTemplateRef cannot be changed: create another machine and delete this one, which drains its node"
	// +kubebuilder:validation:XValidation:rule="has(self.instanceType) == has(oldSelf.instanceType) && (!has(self.instanceType) || self.instanceType == oldSelf.instanceType)",fieldPath=".instanceType",message="instanceType cannot be changed: create another machine and delete this one, which drains its node"
	// +kubebuilder:validation:XValidation:rule="has(self.version) == has(oldSelf.version) && (!has(self.version) || self.version == oldSelf.version)",fieldPath=".version",message="version cannot be changed: create another machine and delete this one, which drains its node"
	// +kubebuilder:validation:XValidation:rule="has(self.nodeGroupRef) == has(oldSelf.nodeGroupRef) && (!has(self.nodeGroupRef) || self.nodeGroupRef == oldSelf.nodeGroupRef)",fieldPath=".nodeGroupRef",message="nodeGroupRef cannot be changed: create another machine and delete this one, which drains its node"
	// +kubebuilder:validation:XValidation:rule="has(self.failureDomain) == has(oldSelf.failureDomain) && (!has(self.failureDomain) || self.failureDomain == oldSelf.failureDomain)",fieldPath=".failureDomain",message="failureDomain cannot be changed: create another machine and delete this one, which drains its node"
	Spec CAPTMachineSpec `json:"spec"`

	// status is the observed state of the node.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status CAPTMachineStatus `json:"status,omitempty"`
}

// GetConditions returns the conditions.
func (m *CAPTMachine) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions sets the conditions.
func (m *CAPTMachine) SetConditions(conditions []metav1.Condition) { m.Status.Conditions = conditions }

// SetObservedGeneration sets the latest observed generation.
func (m *CAPTMachine) SetObservedGeneration(generation int64) {
	m.Status.ObservedGeneration = generation
}

// CAPTMachineList is a list of CAPTMachines.
//
// +kubebuilder:object:root=true
type CAPTMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTMachine `json:"items"`
}

// CAPTMachineTemplateSpec is a template of CAPTMachines.
type CAPTMachineTemplateSpec struct {
	// template is the template of each CAPTMachine. It cannot be changed:
	// create a new CAPTMachineTemplate instead.
	// +required
	Template CAPTMachineTemplateResource `json:"template"`
}

// CAPTMachineTemplateResource is the template of each CAPTMachine.
// +kubebuilder:validation:XValidation:rule="!has(self.spec.providerID)",fieldPath=".spec.providerID",message="spec.providerID is set per machine: remove it from the template"
type CAPTMachineTemplateResource struct {
	// metadata is the metadata of each CAPTMachine.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the spec of each CAPTMachine.
	// +required
	Spec CAPTMachineSpec `json:"spec"`
}

// CAPTMachineTemplateStatus helps autoscalers to scale from zero.
type CAPTMachineTemplateStatus struct {
	// capacity is the capacity of a node of this template.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// nodeInfo describes a node of this template.
	// +optional
	NodeInfo NodeInfo `json:"nodeInfo,omitempty,omitzero"`
}

// NodeInfo describes a node.
// +kubebuilder:validation:MinProperties=1
type NodeInfo struct {
	// architecture is the node's CPU architecture.
	// +optional
	// +kubebuilder:validation:Enum=amd64;arm64;s390x;ppc64le
	Architecture string `json:"architecture,omitempty"`

	// operatingSystem is the node's operating system.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	OperatingSystem string `json:"operatingSystem,omitempty"`
}

// CAPTMachineTemplate is a template of CAPTMachines, for Cluster API's
// MachineDeployments and for ClusterClasses.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta1"
// +kubebuilder:resource:path=captmachinetemplates,scope=Namespaced,shortName=captmt,categories=cluster-api;capt
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.template.spec.instanceType`,description="Instance type"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
type CAPTMachineTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired template.
	// +required
	Spec CAPTMachineTemplateSpec `json:"spec"`

	// status helps autoscalers to scale from zero.
	// +optional
	Status CAPTMachineTemplateStatus `json:"status,omitempty"`
}

// CAPTMachineTemplateList is a list of CAPTMachineTemplates.
//
// +kubebuilder:object:root=true
type CAPTMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTMachineTemplate `json:"items"`
}
