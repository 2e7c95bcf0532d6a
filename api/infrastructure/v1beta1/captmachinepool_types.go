package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// CAPTMachinePoolFinalizer keeps a CAPTMachinePool until its node group is destroyed.
const CAPTMachinePoolFinalizer = "infrastructure.cluster.x-k8s.io/captmachinepool"

// Conditions of a CAPTMachinePool and their reasons.
const (
	// NodeGroupReadyCondition reports whether the node group's workspace is applied.
	NodeGroupReadyCondition = "NodeGroupReady"
	// WaitingForMachinePoolReason surfaces when no MachinePool owns the pool yet.
	WaitingForMachinePoolReason = "WaitingForMachinePool"
	// ReplicasOutOfBoundsReason surfaces when the MachinePool asks for fewer or
	// more nodes than spec.scaling allows.
	ReplicasOutOfBoundsReason = "ReplicasOutOfBounds"
	// ReplicasReadyCondition reports whether the number of nodes is the desired one.
	ReplicasReadyCondition = "ReplicasReady"
	// WaitingForReplicasReason surfaces when the number of nodes is not the
	// desired one yet.
	WaitingForReplicasReason = "WaitingForReplicas"
	// ReplicasManagedElsewhereReason surfaces when the annotation
	// cluster.x-k8s.io/replicas-managed-by of the MachinePool gives the number of
	// nodes to another system.
	ReplicasManagedElsewhereReason = "ReplicasManagedElsewhere"
	// MembersKnownCondition reports whether the provider IDs of the nodes are those
	// of the nodes in the cluster.
	MembersKnownCondition = "MembersKnown"
	// RefreshingReason surfaces when nodes were added or removed since the outputs
	// were read, and a run has been requested to read them.
	RefreshingReason = "Refreshing"
	// VersionCurrentCondition reports whether the nodes have the Kubernetes version of
	// the control plane.
	VersionCurrentCondition = "VersionCurrent"
	// VersionBehindReason surfaces when nodes are older than the control plane.
	VersionBehindReason = "VersionBehind"
)

// CapacityType is the purchase option of the nodes of a pool.
// +kubebuilder:validation:Enum=OnDemand;Spot
type CapacityType string

// The capacity types.
const (
	// CapacityTypeOnDemand provides nodes that are never reclaimed.
	CapacityTypeOnDemand CapacityType = "OnDemand"
	// CapacityTypeSpot provides cheaper nodes that can be reclaimed.
	CapacityTypeSpot CapacityType = "Spot"
)

// PoolScaling limits the number of nodes of a pool.
// +kubebuilder:validation:XValidation:rule="self.minSize <= self.maxSize",fieldPath=".minSize",message="minSize must not be greater than maxSize"
type PoolScaling struct {
	// minSize is the minimum number of nodes.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	MinSize *int32 `json:"minSize"`

	// maxSize is the maximum number of nodes.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxSize *int32 `json:"maxSize"`
}

// PoolUpdate limits a rolling update of a pool.
// +kubebuilder:validation:XValidation:rule="has(self.maxUnavailable) != has(self.maxUnavailablePercentage)",message="set exactly one of maxUnavailable and maxUnavailablePercentage"
type PoolUpdate struct {
	// maxUnavailable is how many nodes may be replaced at once.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxUnavailable *int32 `json:"maxUnavailable,omitempty"`

	// maxUnavailablePercentage is the percentage of nodes that may be replaced at once.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxUnavailablePercentage *int32 `json:"maxUnavailablePercentage,omitempty"`
}

// CAPTMachinePoolSpec is a managed node group.
type CAPTMachinePoolSpec struct {
	// workspaceTemplateRef names the WorkspaceTemplate of the node group.
	//
	// Besides the variables of the fields below, it receives name,
	// cluster_name and desired_size and, if it declares them, region, vpc_id,
	// subnet_ids, kubernetes_version (a minor such as 1.33),
	// bootstrap_secret_name, and any variable with the name of an output of the
	// control plane's workspace, such as cluster_endpoint. Values that do not come
	// from the MachinePool are fixed when the node group is created.
	//
	// bootstrap_secret_name names the Secret with the bootstrap data. The data
	// are secret, so a template reads them by a secretKeyRef of env or varFiles
	// whose name is ${bootstrap_secret_name} and whose key is value.
	//
	// Its outputs are provider_id_list (required), the provider IDs of the nodes,
	// provider_id, that of the node group, and node_selector, the labels by which
	// the nodes are known in the cluster. When nodes are added or removed
	// that provider_id_list does not reflect, a run refreshes it.
	// +required
	WorkspaceTemplateRef TemplateReference `json:"workspaceTemplateRef"`

	// instanceTypes are the instance types the nodes may have (variable
	// instance_types).
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.all(t, t.matches('^[a-z0-9][a-z0-9.-]*$'))",message="instanceTypes must be names of instance types such as m7g.large"
	InstanceTypes []string `json:"instanceTypes,omitempty"`

	// capacityType is the purchase option of the nodes (variable capacity_type, in the
	// spelling of EKS: ON_DEMAND or SPOT).
	// +optional
	// +kubebuilder:default=OnDemand
	CapacityType CapacityType `json:"capacityType,omitempty"`

	// scaling limits the number of nodes (variables min_size and max_size). The
	// desired number is the MachinePool's (variable desired_size), unless its
	// annotation cluster.x-k8s.io/replicas-managed-by gives it to another system.
	// Without scaling both limits are the desired number.
	// +optional
	Scaling *PoolScaling `json:"scaling,omitempty"`

	// update limits a rolling update (variable update_config, an object with
	// max_unavailable or max_unavailable_percentage).
	// +optional
	Update *PoolUpdate `json:"update,omitempty"`

	// labels are labels of the nodes (variable labels).
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`

	// taints are taints of the nodes (variable taints, a list of objects with
	// key, value and effect in the spelling of Kubernetes, such as NoSchedule).
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MaxItems=50
	Taints []Taint `json:"taints,omitempty"`

	// tags are tags of the node group (variable tags).
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	Tags map[string]string `json:"tags,omitempty"`

	// amiType is the AMI type of the nodes (variable ami_type).
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	AMIType string `json:"amiType,omitempty"`

	// diskSizeGiB is the size of the nodes' disk (variable disk_size).
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16384
	DiskSizeGiB *int32 `json:"diskSizeGiB,omitempty"`

	// variables are further values for the template's variables.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Variables map[string]Value `json:"variables,omitempty"`

	// workspace has settings of the workspace that CAPT creates for the node group.
	// +optional
	Workspace *WorkspaceSettings `json:"workspace,omitempty"`

	// providerID identifies the node group, from the output provider_id.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// providerIDList are the provider IDs of the nodes, kept current by CAPT.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	ProviderIDList []string `json:"providerIDList,omitempty"`
}

// CAPTMachinePoolStatus is the observed state of a pool.
type CAPTMachinePoolStatus struct {
	// initialization is part of Cluster API's contract.
	// +optional
	Initialization InitializationStatus `json:"initialization,omitempty,omitzero"`

	// ready repeats initialization.provisioned, where the MachinePool controller of
	// Cluster API up to 1.14 reads it.
	// +optional
	Ready *bool `json:"ready,omitempty"`

	// conditions are the latest observations of the pool.
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

	// replicas is the number of nodes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// capacity is the capacity of a node of the smallest of spec.instanceTypes, for
	// autoscalers that scale from zero. It is empty if CAPT does not know a type.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// nodeInfo describes a node of the pool, for autoscalers that scale from zero.
	// +optional
	NodeInfo NodeInfo `json:"nodeInfo,omitempty,omitzero"`

	// workspaceRef names the WorkspaceTemplateApply of the pool.
	// +optional
	WorkspaceRef *LocalReference `json:"workspaceRef,omitempty"`
}

// CAPTMachinePool is a managed node group.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta1"
// +kubebuilder:resource:path=captmachinepools,scope=Namespaced,shortName=captmp,categories=cluster-api;capt
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`,description="Cluster this belongs to"
// +kubebuilder:printcolumn:name="Capacity",type=string,JSONPath=`.spec.capacityType`,description="How the nodes are paid for"
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`,description="Nodes there are"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the pool is as wanted"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is not"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What it waits for"
type CAPTMachinePool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired pool.
	// +required
	Spec CAPTMachinePoolSpec `json:"spec"`

	// status is the observed state of the pool.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status CAPTMachinePoolStatus `json:"status,omitempty"`
}

// GetConditions returns the conditions.
func (p *CAPTMachinePool) GetConditions() []metav1.Condition { return p.Status.Conditions }

// SetConditions sets the conditions.
func (p *CAPTMachinePool) SetConditions(conditions []metav1.Condition) {
	p.Status.Conditions = conditions
}

// SetObservedGeneration sets the latest observed generation.
func (p *CAPTMachinePool) SetObservedGeneration(generation int64) {
	p.Status.ObservedGeneration = generation
}

// CAPTMachinePoolList is a list of CAPTMachinePools.
//
// +kubebuilder:object:root=true
type CAPTMachinePoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTMachinePool `json:"items"`
}

// CAPTMachinePoolTemplateSpec is a template of CAPTMachinePools.
type CAPTMachinePoolTemplateSpec struct {
	// template is the template of each CAPTMachinePool. It cannot be changed:
	// create a new CAPTMachinePoolTemplate instead.
	// +required
	Template CAPTMachinePoolTemplateResource `json:"template"`
}

// CAPTMachinePoolTemplateResource is the template of each CAPTMachinePool.
// +kubebuilder:validation:XValidation:rule="!has(self.spec.providerID) && !has(self.spec.providerIDList)",message="spec.providerID and spec.providerIDList belong to one pool; remove them from the template"
type CAPTMachinePoolTemplateResource struct {
	// metadata is the metadata of each CAPTMachinePool.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the spec of each CAPTMachinePool.
	// +required
	Spec CAPTMachinePoolSpec `json:"spec"`
}

// CAPTMachinePoolTemplate is a template of CAPTMachinePools, for ClusterClasses.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta1"
// +kubebuilder:resource:path=captmachinepooltemplates,scope=Namespaced,shortName=captmpt,categories=cluster-api;capt
// +kubebuilder:printcolumn:name="Capacity",type=string,JSONPath=`.spec.template.spec.capacityType`,description="How the nodes are paid for"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
type CAPTMachinePoolTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired template.
	// +required
	Spec CAPTMachinePoolTemplateSpec `json:"spec"`
}

// CAPTMachinePoolTemplateList is a list of CAPTMachinePoolTemplates.
//
// +kubebuilder:object:root=true
type CAPTMachinePoolTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTMachinePoolTemplate `json:"items"`
}
