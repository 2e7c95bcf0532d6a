package v1beta1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkspaceTemplateFinalizer keeps a template until no workspace uses it: the
// module is required to destroy its resources.
const WorkspaceTemplateFinalizer = "infrastructure.cluster.x-k8s.io/workspacetemplate"

// Condition of a WorkspaceTemplate and its reasons.
const (
	// ModuleValidCondition reports whether the module parses and its
	// declarations match the template.
	ModuleValidCondition = "ModuleValid"
	// ModuleInspectedReason surfaces when the inline module has been inspected;
	// status.variables and status.outputs list its declarations.
	ModuleInspectedReason = "Inspected"
	// ModuleInvalidReason surfaces when the inline module does not parse.
	ModuleInvalidReason = "ModuleInvalid"
	// ModuleNotInspectedReason surfaces for modules that are not inline, which are
	// inspected by the run that uses them.
	ModuleNotInspectedReason = "InspectedByRun"
)

// ModuleSource is the source of a module.
// +kubebuilder:validation:Enum=Inline;Remote;Flux
type ModuleSource string

// The sources of a module.
const (
	// ModuleSourceInline is a module written in the template itself.
	ModuleSourceInline ModuleSource = "Inline"
	// ModuleSourceRemote is a module at an address that Terraform can fetch.
	ModuleSourceRemote ModuleSource = "Remote"
	// ModuleSourceFlux is a module in a source of Flux. A new revision of the source is
	// planned without a change of the template.
	ModuleSourceFlux ModuleSource = "Flux"
)

// FluxSourceKind is the kind of a source of Flux.
// +kubebuilder:validation:Enum=GitRepository;OCIRepository;Bucket
type FluxSourceKind string

// FluxSourceReference names a source of Flux in the namespace of the template.
type FluxSourceReference struct {
	// kind is the kind of the source, in source.toolkit.fluxcd.io/v1.
	// +required
	Kind FluxSourceKind `json:"kind"`

	// name is the name of the source.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$')",message="name must be the name of an object: lower-case letters, digits, '-' and '.', for example infrastructure"
	Name string `json:"name"`
}

// String returns the kind and name.
func (r FluxSourceReference) String() string { return string(r.Kind) + "/" + r.Name }

// FileFormat is the syntax of a module or of a variables file.
// +kubebuilder:validation:Enum=HCL;JSON
type FileFormat string

// The formats of a module or a variables file.
const (
	// FileFormatHCL is Terraform's native syntax.
	FileFormatHCL FileFormat = "HCL"
	// FileFormatJSON is Terraform's JSON syntax.
	FileFormatJSON FileFormat = "JSON"
)

// WorkspaceTemplateSpec specifies which module a workspace applies, and how.
type WorkspaceTemplateSpec struct {
	// template describes the workspaces of this template.
	// +required
	Template WorkspaceTemplateDefinition `json:"template"`

	// lending limits what workspaces of other namespaces do with this template, if a
	// CAPTReferenceGrant lends it to them. Without it they may set all variables.
	// +optional
	Lending *TemplateLending `json:"lending,omitempty"`

	// rollout specifies in which stages a changed module reaches the workspaces. Without it
	// all of them plan it at once.
	// +optional
	Rollout *TemplateRollout `json:"rollout,omitempty"`
}

// TemplateLending limits what workspaces of other namespaces do with a template.
type TemplateLending struct {
	// variables are the variables and placeholders that workspaces of other namespaces may
	// set. The others have the values of this template and the defaults of its module. List
	// also those that CAPT sets for clusters, control planes and machines, such as
	// cluster_name and kubernetes_version. If it is empty, they may set none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.all(v, v.matches('^[A-Za-z_][-A-Za-z0-9_]*$'))",message="variables must be names of variables: letters, digits, '_' and '-', for example cluster_name"
	Variables []string `json:"variables,omitempty"`
}

// WorkspaceTemplateDefinition describes the workspaces of a template.
type WorkspaceTemplateDefinition struct {
	// metadata describes the template to users.
	// +optional
	Metadata *WorkspaceTemplateMetadata `json:"metadata,omitempty"`

	// spec is the workspace: module, variables and provider settings.
	// +required
	Spec WorkspaceSpec `json:"spec"`
}

// WorkspaceTemplateMetadata describes a template to users.
type WorkspaceTemplateMetadata struct {
	// description describes what the template creates.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Description string `json:"description,omitempty"`

	// version is the version of the template.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`

	// tags are key-value pairs for users and tools.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Tags map[string]string `json:"tags,omitempty"`
}

// WorkspaceSpec is one Terraform workspace: module, variables and settings.
type WorkspaceSpec struct {
	// providerConfigRef names the WorkspaceProviderConfig with credentials,
	// provider settings and backend. Without it the module runs with its own
	// providers and the default backend.
	// +optional
	ProviderConfigRef *LocalReference `json:"providerConfigRef,omitempty"`

	// writeConnectionSecretToRef is where the outputs are written, unless the
	// WorkspaceTemplateApply overrides it.
	// +optional
	WriteConnectionSecretToRef *ObjectReference `json:"writeConnectionSecretToRef,omitempty"`

	// forProvider is the module with its inputs.
	// +required
	ForProvider ModuleParameters `json:"forProvider"`

	// tool is the OpenTofu or Terraform that runs the module, among those that the runner
	// has. Without it, the default of the runner runs it.
	// +optional
	Tool *ToolRequirement `json:"tool,omitempty"`

	// outputs selects the outputs that are written into the connection Secret and the
	// status, and renames them: a module whose outputs have other names fits without a
	// change. Without it, all outputs are written under their own names.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	Outputs []SelectedOutput `json:"outputs,omitempty"`

	// approval specifies whether a plan is applied at once or waits for approval.
	// +optional
	Approval ApprovalMode `json:"approval,omitempty"`

	// destroyApproval specifies whether the deletion of a WorkspaceTemplateApply
	// destroys its resources at once (Auto), or waits until a user approves the plan
	// that destroys them (Manual). With Manual, protected resources also hold the
	// deletion back. Defaults to Auto.
	// +optional
	DestroyApproval ApprovalMode `json:"destroyApproval,omitempty"`

	// adoption protects existing resources until this template has taken them over.
	// Workspaces can set it too, and the earlier stage of both counts.
	// +optional
	Adoption AdoptionStage `json:"adoption,omitempty"`

	// protect lists the resources that no plan may destroy or replace unless a
	// user names their address: resource addresses, or types such as
	// aws_eks_cluster. A '*' stands for any characters.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Protect []ProtectPattern `json:"protect,omitempty"`

	// drift specifies whether and how often resources are compared with the state.
	// +optional
	Drift *DriftPolicy `json:"drift,omitempty"`

	// timeout is how long a run may take before it is stopped gracefully.
	// An apply may take twice as long.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="timeout must be between 1s and 24h, for example 45m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// retry limits how failed runs are retried.
	// +optional
	Retry *RetryPolicy `json:"retry,omitempty"`
}

// AdoptionStage is a stage of taking over resources that CAPT did not create.
// +kubebuilder:validation:Enum=Observe;Commit
type AdoptionStage string

// The stages of an adoption. It is complete once the field is removed.
const (
	// AdoptionObserve refuses every plan that has changes, so that they can be read.
	AdoptionObserve AdoptionStage = "Observe"
	// AdoptionCommit refuses plans that destroy or replace a resource, whoever approves
	// them. Others wait for approval.
	AdoptionCommit AdoptionStage = "Commit"
)

// ToolName is the name of a program that runs modules.
// +kubebuilder:validation:Enum=OpenTofu;Terraform
type ToolName string

// The programs that run modules.
const (
	ToolOpenTofu  ToolName = "OpenTofu"
	ToolTerraform ToolName = "Terraform"
)

// ToolRequirement is the program that runs a module.
// +kubebuilder:validation:MinProperties=1
type ToolRequirement struct {
	// name is OpenTofu or Terraform. Without it, either is used.
	// +optional
	Name ToolName `json:"name,omitempty"`

	// version are version constraints as in a module, such as "~> 1.10" or ">= 1.9, < 2".
	// The newest version that the runner has and that they allow is used.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^ *(=|!=|>=|<=|>|<|~>)? *v?[0-9]{1,6}([.][0-9]{1,6}){0,2}(-[0-9A-Za-z.-]+)? *(, *(=|!=|>=|<=|>|<|~>)? *v?[0-9]{1,6}([.][0-9]{1,6}){0,2}(-[0-9A-Za-z.-]+)? *)*$')",message="version must be a version constraint such as ~> 1.10"
	Version string `json:"version,omitempty"`
}

// SelectedOutput is an output of a module that workspaces have.
type SelectedOutput struct {
	// name is the name of the output in the module.
	// +required
	Name OutputName `json:"name"`

	// as is its name in the connection Secret and the status. Defaults to the name in
	// the module.
	// +optional
	As OutputName `json:"as,omitempty"`
}

// Key returns the name of the output in the connection Secret.
func (o SelectedOutput) Key() string {
	if o.As != "" {
		return string(o.As)
	}
	return string(o.Name)
}

// OutputName is the name of a Terraform output.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][-A-Za-z0-9_]*$')",message="an output's name must start with a letter or '_' and contain only letters, digits, '_' and '-'"
type OutputName string

// ModuleCredential names the Secret with the credentials for fetching modules from a host.
type ModuleCredential struct {
	// host is the host that gets the credentials, with its port if addresses have one, for
	// example git.example.com.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?$')",message="host must be a host in lower case, without scheme and path, for example git.example.com or git.example.com:8443"
	Host string `json:"host"`

	// secretRef is the Secret in the namespace of the workspace: token, or username and
	// password, for Git over HTTPS; ssh-privatekey or identity, and known_hosts, for Git over
	// SSH; token for a registry; .dockerconfigjson for an OCI registry.
	// +required
	SecretRef LocalReference `json:"secretRef"`
}

// ModuleParameters is a module with its inputs.
// +kubebuilder:validation:XValidation:rule="self.source == 'Flux' || has(self.module)",fieldPath=".module",reason=FieldValueRequired,message="write the module's text with source: Inline, or its address with source: Remote"
// +kubebuilder:validation:XValidation:rule="self.source != 'Flux' || !has(self.module)",fieldPath=".module",message="a module of a Flux source is found by sourceRef and entrypoint: remove module, or set source: Remote"
// +kubebuilder:validation:XValidation:rule="(self.source == 'Flux') == has(self.sourceRef)",fieldPath=".sourceRef",message="source: Flux and sourceRef belong together: set both, or none"
// +kubebuilder:validation:XValidation:rule="self.source == 'Inline' || !has(self.inlineFormat)",fieldPath=".inlineFormat",message="inlineFormat requires source: Inline: remove it, or set source: Inline"
// +kubebuilder:validation:XValidation:rule="self.source == 'Inline' || !has(self.files)",fieldPath=".files",message="files belong to an inline module: remove them, or set source: Inline"
// +kubebuilder:validation:XValidation:rule="self.source != 'Inline' || !has(self.entrypoint) || size(self.entrypoint) == 0",fieldPath=".entrypoint",message="entrypoint is a directory of a remote module; remove it, or set source: Remote"
// +kubebuilder:validation:XValidation:rule="!has(self.version) || self.source == 'Remote' && has(self.module) && !self.module.contains('::') && !self.module.contains('?') && !self.module.startsWith('/')",fieldPath=".version",message="version requires a registry address, for example module: terraform-aws-modules/vpc/aws; select the version of another source in its address, for example with ?ref="
// +kubebuilder:validation:XValidation:rule="self.source != 'Remote' || !has(self.module) || !self.module.contains('\\n')",fieldPath=".module",message="module must be one address when source is Remote; set source: Inline to write the module here"
// +kubebuilder:validation:XValidation:rule="self.source != 'Remote' || !has(self.module) || !(self.module.startsWith('./') || self.module.startsWith('../'))",fieldPath=".module",message="module must be an address that can be fetched, for example git::https://example.com/network.git//vpc?ref=v1.0.0; a relative path cannot be resolved"
// +kubebuilder:validation:XValidation:rule="!has(self.varmap)",fieldPath=".varmap",message="varmap is not supported: write each of its entries as key and value in vars, where a value may be any JSON"
// +kubebuilder:validation:XValidation:rule="!has(self.remotePullPolicy)",fieldPath=".remotePullPolicy",message="remotePullPolicy is not supported: remove it. A remote module is fetched when the inputs change; source: Flux follows new revisions"
type ModuleParameters struct {
	// source specifies where the module is: in module as text (Inline), at the address
	// module (Remote), or in the Flux source sourceRef (Flux).
	// +required
	Source ModuleSource `json:"source"`

	// module is the module's text (source: Inline) or its address in the form
	// of Terraform (source: Remote).
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=524288
	Module string `json:"module,omitempty"`

	// sourceRef is the source of Flux that has the module (source: Flux). It is in the
	// namespace of this template. A new revision of the source is planned by itself, and
	// applied as approval specifies. The revision that a workspace uses is in its
	// status.module.
	// +optional
	SourceRef *FluxSourceReference `json:"sourceRef,omitempty"`

	// version is the version constraint of a module in a registry, for example
	// "6.1.0" or "~> 6.1" (source: Remote). What it resolved to is in status.module of
	// the workspace.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`

	// moduleCredentials are the Secrets with the credentials for fetching the module, and
	// those that it uses, whatever the source. Each host gets its own.
	// +optional
	// +listType=map
	// +listMapKey=host
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	ModuleCredentials []ModuleCredential `json:"moduleCredentials,omitempty"`

	// inlineFormat is the syntax of an inline module. Defaults to HCL.
	// +optional
	InlineFormat FileFormat `json:"inlineFormat,omitempty"`

	// files are further files of an inline module by their paths, for example
	// modules/vpc/main.tf for a module that it calls with source = "./modules/vpc".
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	Files map[string]string `json:"files,omitempty"`

	// entrypoint is the directory inside a remote module or a Flux source where Terraform
	// runs.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.split('/').exists(p, p == '..')",message="entrypoint must be a relative path inside the module, without '..'"
	Entrypoint string `json:"entrypoint,omitempty"`

	// vars are variables with their values; ${...} in a value is resolved.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +kubebuilder:validation:MaxItems=256
	Vars []Variable `json:"vars,omitempty"`

	// varFiles are variables files; later files take precedence over earlier ones,
	// and vars over all of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	VarFiles []VarFile `json:"varFiles,omitempty"`

	// env are environment variables of Terraform's process.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Env []EnvVar `json:"env,omitempty"`

	// initArgs are extra arguments of init.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	InitArgs []Argument `json:"initArgs,omitempty"`

	// planArgs are extra arguments of plan.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	PlanArgs []Argument `json:"planArgs,omitempty"`

	// applyArgs are extra arguments of apply.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	ApplyArgs []Argument `json:"applyArgs,omitempty"`

	// destroyArgs are extra arguments of the plan that destroys.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	DestroyArgs []Argument `json:"destroyArgs,omitempty"`

	// enableTerraformCLILogging is accepted in manifests of Crossplane and has no effect:
	// the log of every run is kept.
	// +optional
	EnableTerraformCLILogging *bool `json:"enableTerraformCLILogging,omitempty"`

	// varmap is refused. Manifests of Crossplane have it; use vars.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	VarMap *RefusedObject `json:"varmap,omitempty"`

	// remotePullPolicy is refused. Manifests of Crossplane have it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	RemotePullPolicy string `json:"remotePullPolicy,omitempty"`
}

// RefusedObject is the value of a field that only manifests of others have.
type RefusedObject struct{}

// Argument is an extra command-line argument. Arguments that CAPT
// sets itself are refused, and so are variables, whose values would be visible in
// the process list.
// +kubebuilder:validation:MinLength=2
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:XValidation:rule="self.startsWith('-')",message="an argument must start with '-', for example -parallelism=20"
// +kubebuilder:validation:XValidation:rule="!self.matches('^--?(var|var-file)(=.*)?$')",message="variables are not allowed in arguments: use vars or varFiles"
// +kubebuilder:validation:XValidation:rule="!self.matches('^--?(auto-approve|destroy|out|state|state-out|backup|lock|lock-timeout|json|input|chdir|backend|backend-config|from-module|reconfigure|migrate-state|force-copy|refresh-only|detailed-exitcode|no-color)(=.*)?$')",message="CAPT sets this argument itself; remove it. Use approval, protect, drift or a WorkspaceProviderConfig's backend instead"
type Argument string

// VariableName is the name of a Terraform variable.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][-A-Za-z0-9_]*$')",message="a variable's name must start with a letter or '_' and contain only letters, digits, '_' and '-'"
// +kubebuilder:validation:XValidation:rule="!(self in ['source', 'version', 'providers', 'count', 'for_each', 'lifecycle', 'depends_on', 'locals'])",message="the name is reserved by Terraform: use another one, for example kubernetes_version"
type VariableName string

// Variable is a Terraform variable with its value.
type Variable struct {
	// key is the variable's name.
	// +required
	Key VariableName `json:"key"`

	// value is the variable's value: a string, or any other JSON value for
	// variables of other types. Set exactly one of value, configMapKeyRef and
	// secretKeyRef.
	// +optional
	Value Value `json:"value,omitempty,omitzero"`

	// configMapKeyRef names the key of a ConfigMap that holds the value, a
	// string.
	// +optional
	ConfigMapKeyReference *KeyReference `json:"configMapKeyRef,omitempty"`

	// secretKeyRef names the key of a Secret that holds the value, a string. It
	// never appears in logs, events or status.
	// +optional
	SecretKeyReference *KeyReference `json:"secretKeyRef,omitempty"`
}

// VarFileSource is the kind of object that holds a variables file.
// +kubebuilder:validation:Enum=ConfigMapKey;SecretKey
type VarFileSource string

// The objects that may hold a variables file.
const (
	// VarFileSourceConfigMapKey is a key of a ConfigMap.
	VarFileSourceConfigMapKey VarFileSource = "ConfigMapKey"
	// VarFileSourceSecretKey is a key of a Secret.
	VarFileSourceSecretKey VarFileSource = "SecretKey"
)

// VarFile is a variables file kept in a ConfigMap or a Secret.
// +kubebuilder:validation:XValidation:rule="self.source != 'ConfigMapKey' || (has(self.configMapKeyRef) && !has(self.secretKeyRef))",message="source: ConfigMapKey requires configMapKeyRef and excludes secretKeyRef"
// +kubebuilder:validation:XValidation:rule="self.source != 'SecretKey' || (has(self.secretKeyRef) && !has(self.configMapKeyRef))",message="source: SecretKey requires secretKeyRef and excludes configMapKeyRef"
type VarFile struct {
	// source specifies which of the references is set.
	// +required
	Source VarFileSource `json:"source"`

	// configMapKeyRef names the key of a ConfigMap.
	// +optional
	ConfigMapKeyReference *KeyReference `json:"configMapKeyRef,omitempty"`

	// secretKeyRef names the key of a Secret.
	// +optional
	SecretKeyReference *KeyReference `json:"secretKeyRef,omitempty"`

	// format is the syntax of the file. Defaults to HCL.
	// +optional
	Format FileFormat `json:"format,omitempty"`
}

// EnvVar is an environment variable of Terraform's process.
// +kubebuilder:validation:XValidation:rule="[has(self.value), has(self.configMapKeyRef), has(self.secretKeyRef)].filter(x, x).size() == 1",message="set exactly one of value, configMapKeyRef and secretKeyRef"
type EnvVar struct {
	// name is the variable's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_]*$')",message="name must be the name of an environment variable: letters, digits and '_', not starting with a digit"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('TF_VAR_')",message="Terraform variables are not allowed in env: use vars"
	// +kubebuilder:validation:XValidation:rule="!(self in ['TF_CLI_ARGS', 'TF_CLI_CONFIG_FILE', 'TF_DATA_DIR', 'TF_WORKSPACE', 'TF_INPUT', 'TF_IN_AUTOMATION', 'TF_ENCRYPTION', 'TF_PLUGIN_CACHE_DIR', 'TF_LOG', 'TF_LOG_PATH', 'LD_PRELOAD', 'PATH', 'HOME']) && !self.startsWith('TF_CLI_ARGS_')",message="CAPT sets this environment variable itself; remove it"
	Name string `json:"name"`

	// value is the variable's value; ${...} in it is resolved.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Value *string `json:"value,omitempty"`

	// configMapKeyRef names the key of a ConfigMap that holds the value.
	// +optional
	ConfigMapKeyReference *KeyReference `json:"configMapKeyRef,omitempty"`

	// secretKeyRef names the key of a Secret that holds the value.
	// +optional
	SecretKeyReference *KeyReference `json:"secretKeyRef,omitempty"`
}

// WorkspaceTemplateStatus is the observed state of a template.
type WorkspaceTemplateStatus struct {
	// conditions are the latest observations of the template.
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

	// variables are the variables that the inline module declares.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=512
	Variables []DeclaredVariable `json:"variables,omitempty"`

	// outputs are the outputs that the inline module declares.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=512
	Outputs []DeclaredOutput `json:"outputs,omitempty"`

	// rollout is how far the current module has reached the workspaces, if the template has
	// stages.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`
}

// DeclaredVariable is a variable that a module declares.
type DeclaredVariable struct {
	// name is the variable's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name"`

	// type is the variable's type as Terraform writes it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Type string `json:"type,omitempty"`

	// required reports whether the variable has no default.
	// +optional
	Required *bool `json:"required,omitempty"`

	// default is the variable's default as JSON. It is absent for a variable that is
	// required or sensitive, and if it is not a literal or longer than 1024 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Default string `json:"default,omitempty"`
}

// DeclaredOutput is an output that a module declares.
type DeclaredOutput struct {
	// name is the output's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name"`

	// sensitive reports whether the output is marked as sensitive. Its value never
	// appears in a status.
	// +optional
	Sensitive *bool `json:"sensitive,omitempty"`
}

// WorkspaceTemplate is a Terraform module with its variables, provider settings
// and metadata, that can be applied any number of times.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:resource:path=workspacetemplates,scope=Namespaced,shortName=wst,categories=capt
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.template.metadata.version`,description="Version of the template"
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.spec.template.spec.forProvider.source`,description="Where the module comes from"
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="ModuleValid")].status`,description="Whether the module parses"
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.rollout.updated`,description="Workspaces with the current module, if the template has stages"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:printcolumn:name="Description",type=string,priority=1,JSONPath=`.spec.template.metadata.description`,description="What the template makes"
type WorkspaceTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired template.
	// +required
	Spec WorkspaceTemplateSpec `json:"spec"`

	// status is the observed state of the template.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status WorkspaceTemplateStatus `json:"status,omitempty"`
}

// MaySet reports whether a workspace of a namespace may set a variable or placeholder of the
// template.
func (t *WorkspaceTemplate) MaySet(namespace, variable string) bool {
	return t.Spec.Lending == nil || t.Namespace == "" || t.Namespace == namespace ||
		slices.Contains(t.Spec.Lending.Variables, variable)
}

// GetConditions returns the conditions.
func (t *WorkspaceTemplate) GetConditions() []metav1.Condition { return t.Status.Conditions }

// SetConditions sets the conditions.
func (t *WorkspaceTemplate) SetConditions(conditions []metav1.Condition) {
	t.Status.Conditions = conditions
}

// SetObservedGeneration sets the latest observed generation.
func (t *WorkspaceTemplate) SetObservedGeneration(generation int64) {
	t.Status.ObservedGeneration = generation
}

// WorkspaceTemplateList is a list of WorkspaceTemplates.
//
// +kubebuilder:object:root=true
type WorkspaceTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkspaceTemplate `json:"items"`
}
