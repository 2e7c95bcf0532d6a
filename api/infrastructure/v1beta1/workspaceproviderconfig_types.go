package v1beta1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkspaceProviderConfigFinalizer keeps a provider config until no workspace
// uses it: the credentials are required to destroy the resources of its
// workspaces.
const WorkspaceProviderConfigFinalizer = "infrastructure.cluster.x-k8s.io/workspaceproviderconfig"

// Conditions of a WorkspaceProviderConfig and their reasons.
const (
	// CredentialsFoundCondition reports whether every Secret the config names
	// exists and has the key. WaitingForSecretReason surfaces when one does not.
	CredentialsFoundCondition = "CredentialsFound"
	// ConfigurationValidCondition reports whether the HCL of the config parses.
	ConfigurationValidCondition = "ConfigurationValid"
	// ConfigurationInvalidReason surfaces when the HCL of the config does not parse.
	ConfigurationInvalidReason = "ConfigurationInvalid"
	// PassphraseTooShortReason surfaces when the passphrase of the state
	// encryption is too short to derive a key from it.
	PassphraseTooShortReason = "PassphraseTooShort"
)

// WorkspaceProviderConfigSpec holds what runs need in addition to the module.
type WorkspaceProviderConfigSpec struct {
	// credentials are put into files or environment variables of the run.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Credentials []ProviderCredential `json:"credentials,omitempty"`

	// configuration is HCL that is added to the module, such as provider blocks.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Configuration string `json:"configuration,omitempty"`

	// backend is where the state is kept. Without it the state is kept in
	// Secrets beside the workspace.
	// +optional
	Backend *BackendConfig `json:"backend,omitempty"`

	// pluginCache shares downloaded providers between runs. Defaults to Enabled.
	// +optional
	PluginCache PluginCacheMode `json:"pluginCache,omitempty"`

	// stateEncryption makes OpenTofu encrypt state and plans.
	// +optional
	StateEncryption *StateEncryption `json:"stateEncryption,omitempty"`

	// runner configures where and with which identity Terraform runs.
	// +optional
	Runner *RunnerConfig `json:"runner,omitempty"`

	// maxConcurrentRuns is how many runs may use this config at the same time. A namespace
	// to which it is lent gets half of them, and at least one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxConcurrentRuns *int32 `json:"maxConcurrentRuns,omitempty"`

	// templateNamespaces are the other namespaces whose WorkspaceTemplates may be run with
	// this config in its own namespace. The modules of these templates get the credentials.
	// Without it, only templates of the namespace of the config may use it there.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	TemplateNamespaces []string `json:"templateNamespaces,omitempty"`

	// lending limits what other namespaces do with this config, if a CAPTReferenceGrant
	// lends it to them.
	// +optional
	Lending *ProviderConfigLending `json:"lending,omitempty"`
}

// ProviderConfigLending limits what other namespaces do with a provider config.
// +kubebuilder:validation:MinProperties=1
type ProviderConfigLending struct {
	// roleARNs are the roles that CAPTControlPlanes of other namespaces may name in
	// kubeconfig.roleARN. Without it they may name none: CAPT would assume a role that
	// they choose with these credentials.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.all(r, r.matches('^arn:[a-z-]+:iam::[0-9]{12}:role/.+$'))",message="roleARNs must be ARNs of IAM roles such as arn:aws:iam::123456789012:role/team-a"
	RoleARNs []string `json:"roleARNs,omitempty"`
}

// PluginCacheMode specifies whether providers are shared between runs.
// +kubebuilder:validation:Enum=Enabled;Disabled
type PluginCacheMode string

// The modes of the plugin cache.
const (
	// PluginCacheEnabled shares downloaded providers between runs.
	PluginCacheEnabled PluginCacheMode = "Enabled"
	// PluginCacheDisabled downloads providers for each workspace.
	PluginCacheDisabled PluginCacheMode = "Disabled"
)

// ProviderCredential is a secret value that is passed to a run.
// +kubebuilder:validation:XValidation:rule="has(self.filename) != has(self.env)",message="set exactly one of filename and env"
type ProviderCredential struct {
	// filename is the file, beside the module, that holds the value.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_.-]+$') && !self.endsWith('.tf') && !self.endsWith('.tf.json') && !self.endsWith('.tofu') && self != '.' && self != '..'",message="filename must be a plain file name such as aws-credentials.ini, not a path and not a .tf file"
	Filename string `json:"filename,omitempty"`

	// env is the environment variable that holds the value.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_]*$') && !self.startsWith('TF_CLI_')",message="env must be the name of an environment variable such as AWS_ACCESS_KEY_ID"
	Env string `json:"env,omitempty"`

	// secretRef names the key of the Secret that holds the value.
	// +required
	SecretRef KeyReference `json:"secretRef"`
}

// BackendConfig is a Terraform backend.
type BackendConfig struct {
	// type is the backend's type, such as s3, gcs, azurerm, http or pg.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z][a-z0-9_]*$')",message="type must be the name of a backend such as s3"
	// +kubebuilder:validation:XValidation:rule="!(self in ['remote', 'cloud'])",message="remote backends that run Terraform elsewhere do not work; use a backend that stores state, such as s3"
	// +kubebuilder:validation:XValidation:rule="self != 'local'",message="a local state would be lost with its working directory; remove backend to keep the state in a Secret, or use one such as s3"
	// +kubebuilder:validation:XValidation:rule="self != 'kubernetes'",message="states are kept in Secrets without a backend; remove backend, or name another one such as s3"
	Type string `json:"type"`

	// configuration holds the backend's arguments as HCL; ${...} in it is
	// resolved, so that each workspace can have its own key.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	Configuration string `json:"configuration,omitempty"`
}

// StateEncryption makes OpenTofu encrypt state and plans.
// +kubebuilder:validation:XValidation:rule="has(self.passphraseSecretRef) != has(self.configurationSecretRef)",message="set exactly one of passphraseSecretRef and configurationSecretRef"
type StateEncryption struct {
	// passphraseSecretRef names a passphrase of at least 16 characters, from
	// which the key is derived.
	// +optional
	PassphraseSecretRef *KeyReference `json:"passphraseSecretRef,omitempty"`

	// configurationSecretRef names a complete OpenTofu encryption configuration.
	// +optional
	ConfigurationSecretRef *KeyReference `json:"configurationSecretRef,omitempty"`
}

// WorkspaceProviderConfigStatus is the observed state of a provider config.
type WorkspaceProviderConfigStatus struct {
	// conditions are the latest observations of the config.
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
}

// WorkspaceProviderConfig holds what runs need in addition to the module: credentials,
// provider blocks, backend, plugin cache, state encryption and the runner.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:resource:path=workspaceproviderconfigs,scope=Namespaced,shortName=wspc,categories=capt
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the config can be used"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it cannot"
// +kubebuilder:printcolumn:name="Backend",type=string,JSONPath=`.spec.backend.type`,description="Where the state is kept, if not in Secrets"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
type WorkspaceProviderConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired config.
	// +required
	Spec WorkspaceProviderConfigSpec `json:"spec"`

	// status is the observed state of the config.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status WorkspaceProviderConfigStatus `json:"status,omitempty"`
}

// AllowsTemplatesOf reports whether WorkspaceTemplates of a namespace may be run with the
// config in the namespace of the config. An empty name is that namespace.
func (c *WorkspaceProviderConfig) AllowsTemplatesOf(namespace string) bool {
	return namespace == "" || namespace == c.Namespace || slices.Contains(c.Spec.TemplateNamespaces, namespace)
}

// GetConditions returns the conditions.
func (c *WorkspaceProviderConfig) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions sets the conditions.
func (c *WorkspaceProviderConfig) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// SetObservedGeneration sets the latest observed generation.
func (c *WorkspaceProviderConfig) SetObservedGeneration(generation int64) {
	c.Status.ObservedGeneration = generation
}

// WorkspaceProviderConfigList is a list of WorkspaceProviderConfigs.
//
// +kubebuilder:object:root=true
type WorkspaceProviderConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkspaceProviderConfig `json:"items"`
}
