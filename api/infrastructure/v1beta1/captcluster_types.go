package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// CAPTClusterFinalizer keeps a CAPTCluster until its infrastructure is destroyed or
// deliberately kept.
const CAPTClusterFinalizer = "infrastructure.cluster.x-k8s.io/captcluster"

// SubnetsAnnotation lists the subnets of an existing VPC that a cluster uses, comma-separated. CAPT
// writes it, because a move or a restore keeps it, and not the status.
const SubnetsAnnotation = "capt.appthrust.io/subnets"

// Conditions of a CAPTCluster and their reasons.
const (
	// InfrastructureReadyCondition reports whether the VPC or the other infrastructure
	// exists and its outputs are known.
	InfrastructureReadyCondition = "InfrastructureReady"
	// VPCNotFoundReason surfaces when the existing VPC cannot be found.
	VPCNotFoundReason = "VPCNotFound"
	// InvalidOutputReason surfaces when an output does not have the form that CAPT reads.
	InvalidOutputReason = "InvalidOutput"
	// EndpointChangedReason surfaces when the address in the outputs differs from the one
	// in spec.controlPlaneEndpoint, which cannot change.
	EndpointChangedReason = "EndpointChanged"
	// FailureDomainsKnownCondition reports whether the failure domains are known.
	FailureDomainsKnownCondition = "FailureDomainsKnown"
	// ControlPlaneGoneCondition reports, during deletion, whether the control plane
	// is deleted.
	ControlPlaneGoneCondition = "ControlPlaneGone"
	// VPCRetainedReason surfaces when the VPC is deliberately kept.
	VPCRetainedReason = "VPCRetained"
	// InfrastructureRetainedReason surfaces when other infrastructure is deliberately kept.
	InfrastructureRetainedReason = "InfrastructureRetained"
	// WaitingForControlPlaneDeletionReason surfaces when the infrastructure waits for the
	// deletion of the control plane that uses it.
	WaitingForControlPlaneDeletionReason = "WaitingForControlPlaneDeletion"
)

// CIDR is an IPv4 or IPv6 network.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=43
// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="must be a network in CIDR notation, for example 10.0.0.0/16"
type CIDR string

// NATGatewayMode specifies how many NAT gateways a VPC has.
// +kubebuilder:validation:Enum=Single;PerZone;None
type NATGatewayMode string

// The numbers of NAT gateways.
const (
	// NATGatewaySingle has one NAT gateway for all zones.
	NATGatewaySingle NATGatewayMode = "Single"
	// NATGatewayPerZone has one NAT gateway in each zone.
	NATGatewayPerZone NATGatewayMode = "PerZone"
	// NATGatewayNone has no NAT gateway.
	NATGatewayNone NATGatewayMode = "None"
)

// VPCConfig configures the VPC that the template creates. Each field becomes the
// variable that its comment names.
// +kubebuilder:validation:MinProperties=1
type VPCConfig struct {
	// name is the VPC's name (variable name). Defaults to <cluster>-vpc.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name,omitempty"`

	// cidr is the VPC's network (variable cidr).
	// +optional
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self).ip().family() == 4 && cidr(self).prefixLength() >= 16 && cidr(self).prefixLength() <= 28",message="cidr must be an IPv4 network between /16 and /28, for example 10.0.0.0/16"
	CIDR CIDR `json:"cidr,omitempty"`

	// availabilityZones are the zones of the subnets (variable azs).
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=6
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	AvailabilityZones []string `json:"availabilityZones,omitempty"`

	// natGateway is how many NAT gateways there are (variable nat_gateway).
	// +optional
	NATGateway NATGatewayMode `json:"natGateway,omitempty"`
}

// CAPTClusterSpec is the infrastructure of a cluster. Without vpcTemplateRef,
// existingVpcId and workspaceTemplateRef the cluster has no infrastructure of its own.
// +kubebuilder:validation:XValidation:rule="[has(self.vpcTemplateRef), has(self.existingVpcId), has(self.workspaceTemplateRef)].filter(set, set).size() < 2",message="set at most one of vpcTemplateRef (CAPT creates a VPC), existingVpcId (CAPT uses yours) and workspaceTemplateRef (CAPT creates other infrastructure)"
// +kubebuilder:validation:XValidation:rule="has(self.vpcTemplateRef) || !has(self.vpcConfig)",fieldPath=".vpcConfig",message="vpcConfig configures a VPC that CAPT creates: remove it, or set vpcTemplateRef"
// +kubebuilder:validation:XValidation:rule="!has(self.existingVpcId) || !has(self.retainVpcOnDelete) || !self.retainVpcOnDelete",fieldPath=".retainVpcOnDelete",message="an existing VPC is never deleted; remove retainVpcOnDelete"
// +kubebuilder:validation:XValidation:rule="has(self.vpcTemplateRef) || has(self.workspaceTemplateRef) || !has(self.workspace)",fieldPath=".workspace",message="workspace configures the workspace of a template: remove it, or set vpcTemplateRef or workspaceTemplateRef"
// +kubebuilder:validation:XValidation:rule="!has(self.existingSubnetIds) || has(self.existingVpcId)",fieldPath=".existingSubnetIds",message="existingSubnetIds require existingVpcId: remove them, or set existingVpcId"
type CAPTClusterSpec struct {
	// region is the cloud region of the cluster (variable region). Templates of clouds
	// without regions need none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z][a-z0-9-]*$')",message="region must be the name of a region such as ap-northeast-1"
	Region string `json:"region,omitempty"`

	// vpcTemplateRef names the WorkspaceTemplate of the VPC.
	// +optional
	VPCTemplateRef *TemplateReference `json:"vpcTemplateRef,omitempty"`

	// workspaceTemplateRef names the WorkspaceTemplate of other infrastructure, such as a
	// network of another cloud or a load balancer for the API server.
	//
	// It receives name and, if it declares them, cluster_name and region. All of its
	// outputs are optional: cluster_endpoint, the address of the API server;
	// failure_domains, a list of objects with name, control_plane and attributes; azs, a
	// list of names of failure domains; vpc_id and subnet_ids. Templates of control planes
	// and machines that declare a variable with the name of an output receive its value.
	// +optional
	WorkspaceTemplateRef *TemplateReference `json:"workspaceTemplateRef,omitempty"`

	// vpcConfig configures the VPC that the template creates.
	// +optional
	VPCConfig *VPCConfig `json:"vpcConfig,omitempty"`

	// existingVpcId is the VPC to use instead of creating one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^vpc-[0-9a-f]{8,17}$')",message="existingVpcId must be the id of a VPC such as vpc-0123456789abcdef0"
	ExistingVPCID string `json:"existingVpcId,omitempty"`

	// existingSubnetIds are the subnets of the existing VPC to use. By default they
	// are looked up by the cluster's tags.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=2
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.all(s, s.matches('^subnet-[0-9a-f]{8,17}$'))",message="existingSubnetIds must be ids of subnets such as subnet-0123456789abcdef0"
	ExistingSubnetIDs []string `json:"existingSubnetIds,omitempty"`

	// retainVpcOnDelete keeps what the template created when the cluster is deleted.
	// +optional
	RetainVPCOnDelete bool `json:"retainVpcOnDelete,omitempty"`

	// workspace has settings of the workspace that CAPT creates for the infrastructure.
	// +optional
	Workspace *WorkspaceSettings `json:"workspace,omitempty"`

	// variables are further values for the template's variables.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Variables map[string]Value `json:"variables,omitempty"`

	// additionalTags are tags of everything the template creates (variable tags).
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	AdditionalTags map[string]string `json:"additionalTags,omitempty"`

	// controlPlaneEndpoint is part of Cluster API's contract. CAPT sets it from the output
	// cluster_endpoint of the template. A CAPTControlPlane sets the endpoint itself, so its
	// cluster needs none here.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.host) || !self.host.contains('/')",fieldPath=".host",message="host must be a host name without scheme or path, for example api.example.com"
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`
}

// InitializationStatus is part of Cluster API's contract.
// +kubebuilder:validation:MinProperties=1
type InitializationStatus struct {
	// provisioned becomes true once, when the infrastructure exists.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// CAPTClusterStatus is the observed state of the infrastructure of a cluster.
type CAPTClusterStatus struct {
	// initialization is part of Cluster API's contract. With a CAPTControlPlane, provisioned
	// becomes true when that is initialized, because Cluster API then connects to the cluster.
	// +optional
	Initialization InitializationStatus `json:"initialization,omitempty,omitzero"`

	// conditions are the latest observations of the cluster.
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

	// failureDomains are the failure domains of the infrastructure, such as the zones of
	// the VPC.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`

	// vpcId is the VPC of the cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	VPCID string `json:"vpcId,omitempty"`

	// subnetIds are the subnets of the cluster.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	SubnetIDs []string `json:"subnetIds,omitempty"`

	// workspaceRef names the WorkspaceTemplateApply of the infrastructure.
	// +optional
	WorkspaceRef *LocalReference `json:"workspaceRef,omitempty"`
}

// CAPTCluster is the infrastructure that the machines of a cluster share, such as its VPC.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta1"
// +kubebuilder:resource:path=captclusters,scope=Namespaced,shortName=captcl,categories=cluster-api;capt
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`,description="Cluster this belongs to"
// +kubebuilder:printcolumn:name="Region",type=string,JSONPath=`.spec.region`,description="Region"
// +kubebuilder:printcolumn:name="VPC",type=string,JSONPath=`.status.vpcId`,description="VPC of the cluster"
// +kubebuilder:printcolumn:name="Provisioned",type=string,JSONPath=`.status.initialization.provisioned`,description="Whether Cluster API may connect to the cluster"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the infrastructure is as wanted"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is not"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What it waits for"
type CAPTCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired infrastructure.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.region) == has(oldSelf.region) && (!has(self.region) || self.region == oldSelf.region)",fieldPath=".region",message="region cannot be changed, set or removed later: create a new cluster in the other region"
	// +kubebuilder:validation:XValidation:rule="has(self.vpcTemplateRef) == has(oldSelf.vpcTemplateRef)",fieldPath=".vpcTemplateRef",message="vpcTemplateRef cannot be set or removed later: create a new cluster"
	// +kubebuilder:validation:XValidation:rule="has(self.workspaceTemplateRef) == has(oldSelf.workspaceTemplateRef)",fieldPath=".workspaceTemplateRef",message="workspaceTemplateRef cannot be set or removed later: create a new cluster"
	// +kubebuilder:validation:XValidation:rule="has(self.existingVpcId) == has(oldSelf.existingVpcId) && (!has(self.existingVpcId) || self.existingVpcId == oldSelf.existingVpcId)",fieldPath=".existingVpcId",message="existingVpcId cannot be changed, set or removed later: a cluster does not move to another VPC; create a new cluster"
	// +kubebuilder:validation:XValidation:rule="!has(oldSelf.controlPlaneEndpoint) || !has(oldSelf.controlPlaneEndpoint.host) || (has(self.controlPlaneEndpoint) && self.controlPlaneEndpoint == oldSelf.controlPlaneEndpoint)",fieldPath=".controlPlaneEndpoint",message="controlPlaneEndpoint cannot be changed once it is set: create a new cluster"
	Spec CAPTClusterSpec `json:"spec"`

	// status is the observed state of the infrastructure.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status CAPTClusterStatus `json:"status,omitempty"`
}

// TemplateRef returns the reference to the template of the infrastructure, or nil if
// nothing is created.
func (s *CAPTClusterSpec) TemplateRef() *TemplateReference {
	if s.WorkspaceTemplateRef != nil {
		return s.WorkspaceTemplateRef
	}
	return s.VPCTemplateRef
}

// HasVPC reports whether the infrastructure is a VPC.
func (s *CAPTClusterSpec) HasVPC() bool { return s.VPCTemplateRef != nil || s.ExistingVPCID != "" }

// GetConditions returns the conditions.
func (c *CAPTCluster) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions sets the conditions.
func (c *CAPTCluster) SetConditions(conditions []metav1.Condition) { c.Status.Conditions = conditions }

// SetObservedGeneration sets the latest observed generation.
func (c *CAPTCluster) SetObservedGeneration(generation int64) {
	c.Status.ObservedGeneration = generation
}

// CAPTClusterList is a list of CAPTClusters.
//
// +kubebuilder:object:root=true
type CAPTClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTCluster `json:"items"`
}

// CAPTClusterTemplateSpec is a template of CAPTClusters.
type CAPTClusterTemplateSpec struct {
	// template is the template of each CAPTCluster. It cannot be changed:
	// create a new CAPTClusterTemplate instead.
	// +required
	Template CAPTClusterTemplateResource `json:"template"`
}

// CAPTClusterTemplateResource is the template of each CAPTCluster.
// +kubebuilder:validation:XValidation:rule="!has(self.spec.controlPlaneEndpoint)",fieldPath=".spec.controlPlaneEndpoint",message="spec.controlPlaneEndpoint is set per cluster: remove it from the template"
type CAPTClusterTemplateResource struct {
	// metadata is the metadata of each CAPTCluster.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the spec of each CAPTCluster.
	// +required
	Spec CAPTClusterSpec `json:"spec"`
}

// CAPTClusterTemplate is a template of CAPTClusters, for ClusterClasses.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta1"
// +kubebuilder:resource:path=captclustertemplates,scope=Namespaced,shortName=captclt,categories=cluster-api;capt
// +kubebuilder:printcolumn:name="Region",type=string,JSONPath=`.spec.template.spec.region`,description="Region"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
type CAPTClusterTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired template.
	// +required
	Spec CAPTClusterTemplateSpec `json:"spec"`
}

// CAPTClusterTemplateList is a list of CAPTClusterTemplates.
//
// +kubebuilder:object:root=true
type CAPTClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTClusterTemplate `json:"items"`
}

// IsCAPTCluster reports whether a reference of a Cluster refers to a CAPTCluster.
func IsCAPTCluster(ref clusterv1.ContractVersionedObjectReference) bool {
	return ref.APIGroup == GroupVersion.Group && ref.Kind == "CAPTCluster"
}
