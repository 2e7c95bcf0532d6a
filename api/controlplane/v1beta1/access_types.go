package v1beta1

// AuthenticationMode specifies what grants access to a cluster.
// +kubebuilder:validation:Enum=API;APIAndConfigMap
type AuthenticationMode string

// The authentication modes.
const (
	// AuthenticationModeAPI reads access entries only.
	AuthenticationModeAPI AuthenticationMode = "API"
	// AuthenticationModeAPIAndConfigMap also reads the ConfigMap aws-auth.
	AuthenticationModeAPIAndConfigMap AuthenticationMode = "APIAndConfigMap"
)

// CreatorAdmin specifies whether the identity of the runs administers the cluster.
// +kubebuilder:validation:Enum=Bootstrap;Entry;None
type CreatorAdmin string

// Whether the identity of the runs administers the cluster.
const (
	// CreatorAdminBootstrap lets the cloud make the creator an administrator, by an entry
	// that the template does not manage.
	CreatorAdminBootstrap CreatorAdmin = "Bootstrap"
	// CreatorAdminEntry makes the identity of the runs an administrator by an access entry
	// of the template, which is removed when the value changes.
	CreatorAdminEntry CreatorAdmin = "Entry"
	// CreatorAdminNone gives the creator no access.
	CreatorAdminNone CreatorAdmin = "None"
)

// AccessPolicy is a policy of the cloud with permissions in the cluster.
type AccessPolicy struct {
	// name is the name of the policy, such as AmazonEKSClusterAdminPolicy.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]+$')",message="name must be the name of an EKS access policy such as AmazonEKSClusterAdminPolicy, not an ARN"
	Name string `json:"name"`

	// namespaces limit the policy to namespaces. Without them it is for the whole cluster.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`
}

// AccessEntry gives a principal of the cloud access to the cluster (variable
// access_entries).
// +kubebuilder:validation:XValidation:rule="has(self.policies) || has(self.kubernetesGroups)",message="set policies or kubernetesGroups: an entry without them has no permissions"
type AccessEntry struct {
	// name is a name of your choice.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="name must contain only lower-case letters, digits and '-', for example admins"
	Name string `json:"name"`

	// principalARN is the role or user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^arn:[a-z-]+:iam::[0-9]{12}:(role|user)/.+$')",message="principalARN must be the ARN of an IAM role or user such as arn:aws:iam::123456789012:role/admin"
	PrincipalARN string `json:"principalARN"`

	// policies are the policies of the principal.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	Policies []AccessPolicy `json:"policies,omitempty"`

	// kubernetesGroups are groups of the principal, for RoleBindings in the cluster.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	KubernetesGroups []string `json:"kubernetesGroups,omitempty"`
}

// ControlPlaneAccess specifies who may use a cluster.
// +kubebuilder:validation:MinProperties=1
type ControlPlaneAccess struct {
	// authenticationMode specifies what grants access (variable authentication_mode). It
	// cannot be changed back from API. Defaults to the template's.
	// +optional
	AuthenticationMode AuthenticationMode `json:"authenticationMode,omitempty"`

	// creatorAdmin specifies whether the identity of the runs administers the cluster
	// (variables cluster_creator_admin and cluster_creator_entry). Bootstrap works only
	// when the cluster is created. Entry can be revoked. CAPT needs access itself: with
	// None, an entry for the identity that signs tokens is required, such as the one in
	// kubeconfig.roleARN. Defaults to the template's.
	// +optional
	CreatorAdmin CreatorAdmin `json:"creatorAdmin,omitempty"`

	// entries give principals access.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Entries []AccessEntry `json:"entries,omitempty"`
}

// AddonRoleName is a controller in the cluster that gets a role in the cloud.
// +kubebuilder:validation:Enum=EBSCSIDriver;AWSLoadBalancerController;ExternalDNS;CertManager
type AddonRoleName string

// The controllers with a role.
const (
	// AddonRoleEBSCSIDriver is the EBS CSI driver, which is installed too.
	AddonRoleEBSCSIDriver AddonRoleName = "EBSCSIDriver"
	// AddonRoleAWSLoadBalancerController is the AWS Load Balancer Controller.
	AddonRoleAWSLoadBalancerController AddonRoleName = "AWSLoadBalancerController"
	// AddonRoleExternalDNS is external-dns.
	AddonRoleExternalDNS AddonRoleName = "ExternalDNS"
	// AddonRoleCertManager is cert-manager.
	AddonRoleCertManager AddonRoleName = "CertManager"
)

// AddonRole is a role in the cloud for a controller in the cluster.
// +kubebuilder:validation:XValidation:rule="has(self.hostedZones) == (self.name in ['ExternalDNS', 'CertManager'])",fieldPath=".hostedZones",message="hostedZones is required for ExternalDNS and CertManager, and must not be set for others"
type AddonRole struct {
	// name is the controller: EBSCSIDriver (variable ebs_csi_driver, which installs the
	// driver), AWSLoadBalancerController (aws_load_balancer_controller_role), ExternalDNS
	// (external_dns_role) or CertManager (cert_manager_role).
	// +required
	Name AddonRoleName `json:"name"`

	// hostedZones are the ids of the hosted zones that the controller may change.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=50
	HostedZones []HostedZone `json:"hostedZones,omitempty"`
}

// HostedZone is the id of a hosted zone.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Z0-9]+$')",message="must be the id of a hosted zone such as Z0123456789ABCDEFGHIJ, not its name"
type HostedZone string

// PodIdentity gives a service account of a managed add-on a role.
type PodIdentity struct {
	// serviceAccount is the service account.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ServiceAccount string `json:"serviceAccount"`

	// roleARN is the role.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^arn:[a-z-]+:iam::[0-9]{12}:role/.+$')",message="roleARN must be the ARN of an IAM role such as arn:aws:iam::123456789012:role/ebs-csi"
	RoleARN string `json:"roleARN"`
}
