package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// CAPTControlPlaneFinalizer keeps a CAPTControlPlane until its cluster is
// destroyed.
const CAPTControlPlaneFinalizer = "controlplane.cluster.x-k8s.io/captcontrolplane"

// SkipDeletionChecksAnnotation names the deletion step that a user allows to
// be skipped, for example nodes or load-balancers.
const SkipDeletionChecksAnnotation = "capt.appthrust.io/skip-deletion-checks"

// SkipVersionChecksAnnotation lets an upgrade continue although an add-on of the
// cluster does not support the new version, or nodes are too old for it.
const SkipVersionChecksAnnotation = "capt.appthrust.io/skip-version-checks"

// Conditions of a CAPTControlPlane, in the order they are reached, and their
// reasons.
const (
	// InfrastructureReadyCondition reports whether the VPC's outputs exist.
	InfrastructureReadyCondition = "InfrastructureReady"
	// WaitingForInfrastructureReason surfaces when the VPC does not exist yet.
	WaitingForInfrastructureReason = "WaitingForInfrastructure"

	// SpotRoleReadyCondition reports whether the account has the EC2 Spot
	// service-linked role.
	SpotRoleReadyCondition = "SpotRoleReady"
	// SpotRoleSkippedReason surfaces when CAPT does not manage the role.
	SpotRoleSkippedReason = "Skipped"
	// SpotRoleFailedReason surfaces when the role could not be created.
	SpotRoleFailedReason = "SpotRoleFailed"

	// WorkspaceReadyCondition reports whether the control plane's workspace is applied.
	WorkspaceReadyCondition = "WorkspaceReady"
	// UpgradingReason surfaces while the version is being raised, one minor at a time.
	UpgradingReason = "Upgrading"
	// NodesTooOldReason surfaces when an upgrade waits for nodes whose kubelet the new
	// version does not support.
	NodesTooOldReason = "NodesTooOld"
	// DowngradeRefusedReason surfaces when spec.version is below the current one.
	DowngradeRefusedReason = "DowngradeRefused"

	// EndpointReadyCondition reports whether the API server's address is known.
	EndpointReadyCondition = "EndpointReady"
	// WaitingForOutputsReason surfaces when the template's outputs do not exist yet.
	WaitingForOutputsReason = "WaitingForOutputs"
	// EndpointChangedReason surfaces when the API server's address differs from the
	// one in spec.controlPlaneEndpoint, which cannot change.
	EndpointChangedReason = "EndpointChanged"

	// KubeconfigReadyCondition reports whether the kubeconfig Secret is current.
	KubeconfigReadyCondition = "KubeconfigReady"
	// MissingOutputReason surfaces when the template has no output of a required name.
	MissingOutputReason = "MissingOutput"
	// BootstrapRejectedReason surfaces when the API server accepts neither the
	// token of the ServiceAccount nor the credential in the output.
	BootstrapRejectedReason = "BootstrapRejected"
	// TokenFailedReason surfaces when no token could be signed.
	TokenFailedReason = "TokenFailed"

	// AvailableCondition reports whether the API server responds.
	AvailableCondition = "Available"
	// WaitingForKubeconfigReason surfaces when the kubeconfig does not exist yet.
	WaitingForKubeconfigReason = "WaitingForKubeconfig"
	// APIServerUnreachableReason surfaces when the API server does not respond.
	APIServerUnreachableReason = "APIServerUnreachable"

	// GuardedCondition reports, during deletion, whether Flux is suspended, so that it
	// does not create again what is deleted.
	GuardedCondition = "Guarded"
	// DeletionProtectedReason surfaces when the cloud would refuse to delete the control
	// plane. Nothing is deleted.
	DeletionProtectedReason = "DeletionProtected"
	// RemovingProtectionReason surfaces while a run removes the protection against
	// deletion.
	RemovingProtectionReason = "RemovingProtection"
	// AddonsGoneCondition reports, during deletion, whether add-ons were removed.
	AddonsGoneCondition = "AddonsGone"
	// NodesGoneCondition reports, during deletion, whether Karpenter's nodes are deleted.
	NodesGoneCondition = "NodesGone"
	// LoadBalancersGoneCondition reports, during deletion, whether load balancers are deleted.
	LoadBalancersGoneCondition = "LoadBalancersGone"
	// VolumesGoneCondition reports, during deletion, whether PersistentVolumes are deleted.
	// Volumes that the policy or their reclaim policy retains are in its message.
	VolumesGoneCondition = "VolumesGone"
	// VolumesRetainedReason surfaces when volumes stay in the cloud.
	VolumesRetainedReason = "VolumesRetained"
	// MachinesGoneCondition reports, during deletion, whether machines and node groups are deleted.
	MachinesGoneCondition = "MachinesGone"
	// LeftoversGoneCondition reports, during deletion, whether what controllers of the
	// cluster left in the account is deleted, such as load balancers, network interfaces
	// and security groups.
	LeftoversGoneCondition = "LeftoversGone"
	// LeftoversUnknownReason surfaces when the account cannot be searched, or when a
	// permission for a part of the search is missing.
	LeftoversUnknownReason = "LeftoversUnknown"
	// LeftoversReportedReason surfaces when resources stay in the account.
	LeftoversReportedReason = "LeftoversReported"
	// StepSkippedReason surfaces when a user skips a step of the deletion.
	StepSkippedReason = "StepSkipped"
	// DeadlineExceededReason surfaces when a deletion step has taken too long.
	DeadlineExceededReason = "DeadlineExceeded"
)

// EndpointAccess specifies which networks can reach the API server.
// +kubebuilder:validation:XValidation:rule="!has(self.public) || !has(self.private) || self.public || self.private",message="set at least one of public and private to true, or the API server is unreachable"
// +kubebuilder:validation:XValidation:rule="!has(self.publicCIDRs) || self.publicCIDRs.size() == 0 || !has(self.public) || self.public",fieldPath=".publicCIDRs",message="publicCIDRs limit the public endpoint; remove them, or set public: true"
// +kubebuilder:validation:XValidation:rule="!has(self.publicCIDRs) || self.publicCIDRs.size() > 0 || !has(self.public) || !self.public",fieldPath=".publicCIDRs",message="must not be empty with public: true, which EKS reads as every address: set the networks that may reach the endpoint, or set public: false"
type EndpointAccess struct {
	// public opens the endpoint to the internet (variable endpoint_public_access).
	// +optional
	Public *bool `json:"public,omitempty"`

	// private opens the endpoint inside the VPC (variable endpoint_private_access).
	// +optional
	Private *bool `json:"private,omitempty"`

	// publicCIDRs are the networks that may reach the public endpoint (variable
	// endpoint_public_access_cidrs). An empty list is the same as none, and
	// refused with public: true. The modules of EKS require networks with public: true.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=0
	// +kubebuilder:validation:MaxItems=40
	PublicCIDRs []infrav1.CIDR `json:"publicCIDRs,omitempty"`
}

// ClusterAddon is an add-on that the cloud manages (variable cluster_addons).
// +kubebuilder:validation:XValidation:rule="!(has(self.roleARN) && has(self.podIdentities))",message="set roleARN (IRSA) or podIdentities, not both"
type ClusterAddon struct {
	// name is the add-on's name, such as vpc-cni.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9][a-z0-9_-]*$')",message="name must be the name of a managed add-on such as vpc-cni"
	Name string `json:"name"`

	// version is the add-on's version. Without it the cloud chooses one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`

	// configurationValues are the add-on's settings, as JSON.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=16384
	ConfigurationValues string `json:"configurationValues,omitempty"`

	// roleARN is a role that the add-on's service account assumes through the cluster's
	// issuer (IRSA).
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^arn:[a-z-]+:iam::[0-9]{12}:role/.+$')",message="roleARN must be the ARN of an IAM role such as arn:aws:iam::123456789012:role/ebs-csi"
	RoleARN string `json:"roleARN,omitempty"`

	// podIdentities are roles of the add-on's service accounts through Pod Identity.
	// +optional
	// +listType=map
	// +listMapKey=serviceAccount
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	PodIdentities []PodIdentity `json:"podIdentities,omitempty"`
}

// ControlPlaneTimeouts are the timeouts of a control plane.
// +kubebuilder:validation:MinProperties=1
type ControlPlaneTimeouts struct {
	// create is how long a run that creates the control plane may take.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="create must be between 1s and 24h, for example 45m"
	Create *metav1.Duration `json:"create,omitempty"`

	// deletionStep is how long a step of the deletion may take before it is
	// reported as stuck.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="deletionStep must be between 1s and 24h, for example 15m"
	DeletionStep *metav1.Duration `json:"deletionStep,omitempty"`
}

// ControlPlaneConfig holds values for variables of the control plane's template.
type ControlPlaneConfig struct {
	// region is the region of the control plane (variable region). Defaults to
	// the CAPTCluster's.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z][a-z0-9-]*$')",message="region must be the name of a region such as ap-northeast-1"
	Region string `json:"region,omitempty"`

	// endpointAccess specifies which networks can reach the API server.
	// +optional
	EndpointAccess *EndpointAccess `json:"endpointAccess,omitempty"`

	// addons are add-ons that the cloud manages.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Addons []ClusterAddon `json:"addons,omitempty"`

	// addonRoles are roles in the cloud that the template creates for controllers in the
	// cluster, with only the permissions that they need.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	AddonRoles []AddonRole `json:"addonRoles,omitempty"`

	// access specifies who may use the cluster.
	// +optional
	Access *ControlPlaneAccess `json:"access,omitempty"`

	// timeouts are the timeouts of the control plane.
	// +optional
	Timeouts *ControlPlaneTimeouts `json:"timeouts,omitempty"`
}

// KubeconfigSource specifies how the kubeconfig is created.
// +kubebuilder:validation:Enum=EKS;Output;ServiceAccount
type KubeconfigSource string

// The sources of a kubeconfig.
const (
	// KubeconfigSourceEKS signs tokens with the AWS credentials.
	KubeconfigSourceEKS KubeconfigSource = "EKS"
	// KubeconfigSourceOutput takes the kubeconfig from an output of the template.
	KubeconfigSourceOutput KubeconfigSource = "Output"
	// KubeconfigSourceServiceAccount renews tokens of a ServiceAccount, which it creates in
	// the workload cluster with the credential in an output of the template.
	KubeconfigSourceServiceAccount KubeconfigSource = "ServiceAccount"
)

// KubeconfigConfig specifies how the kubeconfig is created.
// +kubebuilder:validation:XValidation:rule="self.source != 'EKS' || !has(self.outputName)",fieldPath=".outputName",message="outputName requires source: Output or ServiceAccount: remove it, or change the source"
// +kubebuilder:validation:XValidation:rule="self.source == 'EKS' || !(has(self.roleARN) || has(self.tokenLifetime))",message="roleARN and tokenLifetime require source: EKS: remove them, or change the source"
type KubeconfigConfig struct {
	// source specifies how the kubeconfig is created. ServiceAccount uses the kubeconfig in
	// the output once, to create the ServiceAccount kube-system/capt-manager with the role
	// cluster-admin in the workload cluster, and then renews its tokens forever.
	// +required
	Source KubeconfigSource `json:"source"`

	// outputName is the output that holds the kubeconfig. Defaults to kubeconfig.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	OutputName string `json:"outputName,omitempty"`

	// roleARN is the role that CAPT calls AWS as: it signs tokens, looks up an existing
	// VPC and creates the Spot role as this role. If the runs create the cluster in
	// another account, it must be a role of that account.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^arn:[a-z-]+:iam::[0-9]{12}:role/.+$')",message="roleARN must be the ARN of an IAM role such as arn:aws:iam::123456789012:role/capt"
	RoleARN string `json:"roleARN,omitempty"`

	// tokenLifetime is how long a token is used before a new one is signed.
	// Tokens expire after 15 minutes. Defaults to 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1m') && duration(self) <= duration('14m')",message="tokenLifetime must be between 1m and 14m: tokens expire after 15 minutes"
	TokenLifetime *metav1.Duration `json:"tokenLifetime,omitempty"`
}

// SpotRolePolicy specifies whether CAPT creates the EC2 Spot service-linked role.
// +kubebuilder:validation:Enum=Ensure;Skip
type SpotRolePolicy string

// The policies of the EC2 Spot service-linked role.
const (
	// SpotRoleEnsure creates the role if it does not exist.
	SpotRoleEnsure SpotRolePolicy = "Ensure"
	// SpotRoleSkip never touches the role.
	SpotRoleSkip SpotRolePolicy = "Skip"
)

// LeftoverPolicy specifies what happens to resources that controllers of a cluster leave
// in the account.
// +kubebuilder:validation:Enum=Delete;Report
type LeftoverPolicy string

// The policies of leftovers.
const (
	// LeftoversDelete deletes what no controller of the cluster can delete any more.
	LeftoversDelete LeftoverPolicy = "Delete"
	// LeftoversReport lists it.
	LeftoversReport LeftoverPolicy = "Report"
)

// VolumePolicy specifies what happens to the PersistentVolumes of a cluster.
// +kubebuilder:validation:Enum=Retain;Delete
type VolumePolicy string

// The policies of PersistentVolumes.
const (
	// VolumesRetain leaves the volumes of the cluster in the cloud.
	VolumesRetain VolumePolicy = "Retain"
	// VolumesDelete deletes the PersistentVolumeClaims of the cluster. The reclaim policy
	// of each PersistentVolume decides whether its volume is deleted.
	VolumesDelete VolumePolicy = "Delete"
)

// DeletionPolicy specifies what is deleted with a cluster, apart from what Terraform
// created.
// +kubebuilder:validation:MinProperties=1
type DeletionPolicy struct {
	// leftovers specifies what happens to load balancers, target groups, security groups,
	// network interfaces, and Karpenter's instances, launch templates and instance
	// profiles that controllers of the cluster leave in the account. Defaults to Delete
	// with kubeconfig source EKS. Clusters of other clouds have none.
	// +optional
	Leftovers LeftoverPolicy `json:"leftovers,omitempty"`

	// volumes specifies what happens to PersistentVolumes. Retain leaves the volumes of
	// all of them in the cloud. Delete deletes the PersistentVolumeClaims, and with them
	// the volumes whose reclaim policy is Delete. Defaults to Retain.
	// +optional
	Volumes VolumePolicy `json:"volumes,omitempty"`
}

// CAPTControlPlaneSpec is a managed control plane.
type CAPTControlPlaneSpec struct {
	// version is the Kubernetes version. It is raised one minor at a time and
	// never lowered.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^v?[0-9]+\\\\.[0-9]+(\\\\.[0-9]+)?([-+][0-9A-Za-z.+-]+)?$')",message="version must be a Kubernetes version such as v1.33.0"
	Version string `json:"version"`

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

	// controlPlaneEndpoint is the API server's address, set by CAPT.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.host) || !self.host.contains('/')",fieldPath=".host",message="host must be a host name without scheme or path, for example api.example.com"
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`
}

// ControlPlaneInitializationStatus is part of Cluster API's contract.
// +kubebuilder:validation:MinProperties=1
type ControlPlaneInitializationStatus struct {
	// controlPlaneInitialized becomes true once, when the API server accepts requests.
	// +optional
	ControlPlaneInitialized *bool `json:"controlPlaneInitialized,omitempty"`
}

// KubeconfigStatus describes the kubeconfig Secret.
type KubeconfigStatus struct {
	// secretName is the Secret that holds the kubeconfig.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`

	// renewedAt is when the kubeconfig was last renewed.
	// +optional
	RenewedAt metav1.Time `json:"renewedAt,omitempty,omitzero"`

	// expiresAt is when its token or client certificate expires.
	// +optional
	ExpiresAt metav1.Time `json:"expiresAt,omitempty,omitzero"`
}

// CAPTControlPlaneStatus is the observed state of a control plane.
type CAPTControlPlaneStatus struct {
	// initialization is part of Cluster API's contract.
	// +optional
	Initialization ControlPlaneInitializationStatus `json:"initialization,omitempty,omitzero"`

	// conditions are the latest observations of the control plane.
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

	// externalManagedControlPlane tells Cluster API that the control plane has
	// no nodes in the cluster.
	// +optional
	ExternalManagedControlPlane *bool `json:"externalManagedControlPlane,omitempty"`

	// version is the version of the API server, without the cloud's suffix.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// versions are the versions of the API servers, without the cloud's suffix.
	// +optional
	// +listType=map
	// +listMapKey=version
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Versions []clusterv1.StatusVersion `json:"versions,omitempty"`

	// workspaceRef names the WorkspaceTemplateApply of the control plane.
	// +optional
	WorkspaceRef *infrav1.LocalReference `json:"workspaceRef,omitempty"`

	// connectionSecretName is the Secret that holds the template's outputs.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ConnectionSecretName string `json:"connectionSecretName,omitempty"`

	// kubeconfig describes the kubeconfig Secret.
	// +optional
	Kubeconfig *KubeconfigStatus `json:"kubeconfig,omitempty"`
}

// CAPTControlPlane is a managed control plane.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta1"
// +kubebuilder:resource:path=captcontrolplanes,scope=Namespaced,shortName=captcp,categories=cluster-api;capt
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`,description="Cluster this belongs to"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`,description="Desired version"
// +kubebuilder:printcolumn:name="Current",type=string,JSONPath=`.status.version`,description="Version of the API server"
// +kubebuilder:printcolumn:name="Initialized",type=string,JSONPath=`.status.initialization.controlPlaneInitialized`,description="Whether the API server has accepted requests"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the control plane is as wanted"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is not"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:printcolumn:name="Endpoint",type=string,priority=1,JSONPath=`.spec.controlPlaneEndpoint.host`,description="Address of the API server"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What it waits for"
type CAPTControlPlane struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired control plane.
	// +required
	// +kubebuilder:validation:XValidation:rule="!has(oldSelf.controlPlaneConfig) || !has(oldSelf.controlPlaneConfig.region) || (has(self.controlPlaneConfig) && has(self.controlPlaneConfig.region) && self.controlPlaneConfig.region == oldSelf.controlPlaneConfig.region)",fieldPath=".controlPlaneConfig",message="region cannot be changed: create a new cluster in the other region"
	// +kubebuilder:validation:XValidation:rule="!has(oldSelf.controlPlaneEndpoint) || !has(oldSelf.controlPlaneEndpoint.host) || (has(self.controlPlaneEndpoint) && self.controlPlaneEndpoint == oldSelf.controlPlaneEndpoint)",fieldPath=".controlPlaneEndpoint",message="controlPlaneEndpoint cannot be changed once it is set: create a new cluster"
	Spec CAPTControlPlaneSpec `json:"spec"`

	// status is the observed state of the control plane.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status CAPTControlPlaneStatus `json:"status,omitempty"`
}

// GetConditions returns the conditions.
func (c *CAPTControlPlane) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions sets the conditions.
func (c *CAPTControlPlane) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// SetObservedGeneration sets the latest observed generation.
func (c *CAPTControlPlane) SetObservedGeneration(generation int64) {
	c.Status.ObservedGeneration = generation
}

// CAPTControlPlaneList is a list of CAPTControlPlanes.
//
// +kubebuilder:object:root=true
type CAPTControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTControlPlane `json:"items"`
}

// IsCAPTControlPlane reports whether a reference of a Cluster refers to a
// CAPTControlPlane.
func IsCAPTControlPlane(ref clusterv1.ContractVersionedObjectReference) bool {
	return ref.APIGroup == GroupVersion.Group && ref.Kind == "CAPTControlPlane"
}
