package v1beta1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkspaceTemplateApplyFinalizer keeps a workspace until its resources are
// destroyed or deliberately kept.
const WorkspaceTemplateApplyFinalizer = "infrastructure.cluster.x-k8s.io/workspacetemplateapply"

// WorkspaceHeldFinalizer is set on a workspace by the object that controls it. A
// held workspace that is deleted, by the garbage collector or a user, is not
// destroyed before its owner removes the finalizer or is deleted itself.
const WorkspaceHeldFinalizer = "infrastructure.cluster.x-k8s.io/workspace-held"

// Conditions of a WorkspaceTemplateApply, in the order they are reached, and
// their reasons.
const (
	// DependenciesReadyCondition reports whether all dependencies of the
	// workspace exist: template, provider config, secrets, other workspaces.
	DependenciesReadyCondition = "DependenciesReady"
	// WaitingForProviderConfigReason surfaces when the provider config does not exist yet.
	WaitingForProviderConfigReason = "WaitingForProviderConfig"
	// WaitingForSecretReason surfaces when a Secret, or a key of it, does not exist yet.
	WaitingForSecretReason = "WaitingForSecret"
	// WaitingForConfigMapReason surfaces when a ConfigMap, or a key of it, does not exist yet.
	WaitingForConfigMapReason = "WaitingForConfigMap"
	// WaitingForSourceReason surfaces when the Flux source of the module does not exist,
	// has no artifact yet, or cannot be downloaded.
	WaitingForSourceReason = "WaitingForSource"
	// DependencyCycleReason surfaces when workspaces wait for each other.
	DependencyCycleReason = "DependencyCycle"

	// InputsValidCondition reports whether module, variables and placeholders are
	// consistent. Nothing runs while they are not.
	InputsValidCondition = "InputsValid"
	// UnresolvedPlaceholderReason surfaces when a ${...} has no value.
	UnresolvedPlaceholderReason = "UnresolvedPlaceholder"
	// MissingVariableReason surfaces when a required variable has no value.
	MissingVariableReason = "MissingVariable"
	// UnknownVariableReason surfaces when a value has no matching variable.
	UnknownVariableReason = "UnknownVariable"
	// InvalidVariableReason surfaces when a value cannot be converted to the
	// variable's type.
	InvalidVariableReason = "InvalidVariable"
	// UnknownOutputReason surfaces when the module does not declare a required output.
	UnknownOutputReason = "UnknownOutput"
	// InvalidVarFileReason surfaces when a variables file does not parse.
	InvalidVarFileReason = "InvalidVarFile"
	// NotAllowedReason surfaces when the operator of the manager does not allow the
	// image, the service account or the host of the module, or when a namespace uses what
	// another one lends in a way that this one does not allow.
	NotAllowedReason = "NotAllowed"
	// ReservedNameReason surfaces when the connection Secret would have a name that
	// CAPT or Cluster API uses for something else.
	ReservedNameReason = "ReservedName"

	// AppliedCondition reports whether the current inputs are applied.
	AppliedCondition = "Applied"
	// AppliedReason surfaces when the current inputs are applied.
	AppliedReason = "Applied"
	// QueuedReason surfaces when the run waits for a free slot.
	QueuedReason = "Queued"
	// RunInProgressReason surfaces while a run is in progress.
	RunInProgressReason = "RunInProgress"
	// WaitingForApprovalReason surfaces when a plan waits for approval.
	WaitingForApprovalReason = "WaitingForApproval"
	// PlanApprovedReason is the reason of the event about an approved plan.
	PlanApprovedReason = "PlanApproved"
	// PlanRejectedReason surfaces when a user rejected the plan.
	PlanRejectedReason = "PlanRejected"
	// PlanStaleReason surfaces when the approved plan no longer matches the state
	// and a new one is being created.
	PlanStaleReason = "PlanStale"
	// ProtectedResourceReason surfaces when a plan would destroy or replace a
	// protected resource.
	ProtectedResourceReason = "ProtectedResource"
	// LockHeldReason surfaces when another process holds the state's lock.
	LockHeldReason = "LockHeld"
	// ToolNotAvailableReason surfaces when the runner does not have the OpenTofu or Terraform
	// that the template requires.
	ToolNotAvailableReason = "ToolNotAvailable"
	// ShellOpenReason surfaces when a run waits until a user ends the shell with the state.
	ShellOpenReason = "ShellOpen"
	// ShellClosedReason is the reason of the event when a user has ended the shell.
	ShellClosedReason = "ShellClosed"
	// RetryingReason surfaces when a run failed for a transient reason.
	RetryingReason = "Retrying"
	// RunFailedReason surfaces when a run failed and only a change of its inputs can fix it.
	RunFailedReason = "RunFailed"
	// RunInterruptedReason surfaces when a run was stopped and will be resumed.
	RunInterruptedReason = "RunInterrupted"
	// RunCanceledReason surfaces when a user stopped the run.
	RunCanceledReason = "RunCanceled"
	// RunTimedOutReason surfaces when a run took longer than its timeout.
	RunTimedOutReason = "RunTimedOut"
	// StateTooLargeReason surfaces when the state would exceed the limit of its backend.
	StateTooLargeReason = "StateTooLarge"
	// StateMissingReason surfaces when the state of applied resources does not exist.
	StateMissingReason = "StateMissing"
	// StateForeignReason surfaces when the backend has the state of another workspace.
	StateForeignReason = "StateForeign"
	// StateOutdatedReason surfaces when the backend has an earlier version of the
	// state than the one that was saved last.
	StateOutdatedReason = "StateOutdated"
	// BackendChangedReason surfaces when the state is in another backend than
	// the configured one.
	BackendChangedReason = "BackendChanged"
	// OneShotEndedReason is the reason of the event about a one-shot operation that ends
	// before it is applied.
	OneShotEndedReason = "OneShotEnded"
	// InvalidStateCommandReason surfaces when the state cannot be moved, because the provider
	// config from which it is moved has another backend than the state.
	InvalidStateCommandReason = "InvalidStateCommand"
	// SnapshotNotFoundReason surfaces when a snapshot to restore does not exist.
	SnapshotNotFoundReason = "SnapshotNotFound"

	// OutputsWrittenCondition reports whether the outputs are in the connection
	// Secret and in the status.
	OutputsWrittenCondition = "OutputsWritten"
	// InvalidOutputNameReason surfaces when an output's name is not a valid key of
	// a Secret.
	InvalidOutputNameReason = "InvalidOutputName"
	// OutputsTooLargeReason surfaces when the outputs exceed the limit of a Secret.
	OutputsTooLargeReason = "OutputsTooLarge"
	// SecretConflictReason surfaces when the connection Secret belongs to another
	// owner.
	SecretConflictReason = "SecretConflict"

	// NoDriftCondition reports whether the resources matched the state at the last
	// check.
	NoDriftCondition = "NoDrift"
	// DriftDetectedReason surfaces when resources differ from the state.
	DriftDetectedReason = "DriftDetected"
	// DriftCheckFailedReason surfaces when the last check failed, so that drift is
	// unknown.
	DriftCheckFailedReason = "DriftCheckFailed"

	// StateSavedCondition reports whether the backend has what runs could not save to it. A
	// workspace whose runs have saved everything need not have it. Ready does not count it.
	StateSavedCondition = "StateSaved"
	// StateRescuedReason surfaces when a run could not save its state. The next run saves it.
	StateRescuedReason = "StateRescued"
	// StateNotMergedReason surfaces when a rescued state does not continue the saved one, so
	// that only a user can decide about the resources that it alone has.
	StateNotMergedReason = "StateNotMerged"

	// DestroyedCondition reports, while the workspace is being deleted, the
	// progress of the destruction.
	DestroyedCondition = "Destroyed"
	// HeldByOwnerReason surfaces when the workspace was deleted before its owner
	// released it.
	HeldByOwnerReason = "HeldByOwner"
	// NamespaceTerminatingReason surfaces when the namespace is being deleted, so that no run
	// can start in it.
	NamespaceTerminatingReason = "NamespaceTerminating"
)

// WorkspaceTemplateApplySpec is one application of a template.
type WorkspaceTemplateApplySpec struct {
	// templateRef names the WorkspaceTemplate to apply.
	// +required
	TemplateRef TemplateReference `json:"templateRef,omitzero"`

	// providerConfigRef names the WorkspaceProviderConfig with credentials,
	// provider settings and backend. It overrides the template's. To change the
	// backend of a workspace that has resources, use captctl state migrate-backend.
	// +optional
	ProviderConfigRef *LocalReference `json:"providerConfigRef,omitempty"`

	// variables are values for the module's variables and for the ${...}
	// placeholders of the template. They override the template's own.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Variables map[string]Value `json:"variables,omitempty"`

	// writeConnectionSecretToRef is the Secret that receives every output. It is
	// in the namespace of this object.
	// +optional
	WriteConnectionSecretToRef *ObjectReference `json:"writeConnectionSecretToRef,omitempty"`

	// requiredOutputs are outputs that the module must declare, because readers of
	// the connection Secret rely on them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.all(o, o.matches('^[A-Za-z_][-A-Za-z0-9_]*$'))",message="requiredOutputs must be names of outputs: letters, digits, '_' and '-', for example vpc_id"
	RequiredOutputs []string `json:"requiredOutputs,omitempty"`

	// waitForSecrets are Secrets that must exist before the first run.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	WaitForSecrets []ObjectReference `json:"waitForSecrets,omitempty"`

	// waitForWorkspaces are WorkspaceTemplateApplies that must be applied first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	WaitForWorkspaces []ObjectReference `json:"waitForWorkspaces,omitempty"`

	// retainWorkspaceOnDelete keeps resources, state and connection Secret when this
	// object is deleted.
	// +optional
	RetainWorkspaceOnDelete bool `json:"retainWorkspaceOnDelete,omitempty"`

	// adoption protects existing resources until this workspace has taken them over.
	// The template can set it too, and the earlier stage of both counts. Remove it when
	// the adoption is complete.
	// +optional
	Adoption AdoptionStage `json:"adoption,omitempty"`

	// approval specifies whether a plan is applied at once (Auto) or waits for
	// approval (Manual). Manual of the template cannot be overridden. Defaults to Auto.
	// +optional
	Approval ApprovalMode `json:"approval,omitempty"`

	// destroyApproval specifies whether the deletion of this object destroys its
	// resources at once (Auto), or waits until a user approves the plan that destroys
	// them (Manual). With Manual, protected resources also hold the deletion back.
	// Manual of the template cannot be overridden. Defaults to Auto.
	// +optional
	DestroyApproval ApprovalMode `json:"destroyApproval,omitempty"`

	// approvedPlan is the identity of the plan that may be applied, as shown in
	// status.plan.id. Any other plan that requires approval waits.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^plan-[0-9a-f]{16}$')",message="approvedPlan must be a plan's identity as shown in status.plan.id, for example plan-0123456789abcdef"
	ApprovedPlan string `json:"approvedPlan,omitempty"`

	// protect lists further resources that no plan may destroy or replace
	// unless a user names their address.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Protect []ProtectPattern `json:"protect,omitempty"`

	// drift specifies whether and how often resources are compared with the state.
	// Defaults to the template's.
	// +optional
	Drift *DriftPolicy `json:"drift,omitempty"`

	// timeout is how long a run may take before it is stopped gracefully.
	// An apply may take twice as long.
	// Defaults to the template's, then to 1h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="timeout must be between 1s and 24h, for example 45m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// retry limits how failed runs are retried. Defaults to the template's.
	// +optional
	Retry *RetryPolicy `json:"retry,omitempty"`

	// historyLimit is how many finished runs are kept with their logs.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	HistoryLimit *int32 `json:"historyLimit,omitempty"`

	// snapshotLimit is how many snapshots of the state are kept.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	SnapshotLimit *int32 `json:"snapshotLimit,omitempty"`
}

// WorkspaceTemplateApplyStatus is the observed state of a workspace.
type WorkspaceTemplateApplyStatus struct {
	// conditions are the latest observations of the workspace.
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

	// appliedInputs is the hash of the inputs that were applied last. It is empty
	// after a partially failed apply: neither the old nor the new inputs are in place.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	AppliedInputs string `json:"appliedInputs,omitempty"`

	// templateRevision is the revision of the template that was applied last, if the template
	// has stages.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	TemplateRevision string `json:"templateRevision,omitempty"`

	// appliedAt is when the inputs were applied last.
	// +optional
	AppliedAt metav1.Time `json:"appliedAt,omitempty,omitzero"`

	// run is the current run.
	// +optional
	Run *RunStatus `json:"run,omitempty"`

	// plan is the latest plan.
	// +optional
	Plan *PlanStatus `json:"plan,omitempty"`

	// module is what the module's address and the addresses of the modules that it uses
	// resolved to. Runs with the same inputs use this content, even if a branch moves.
	// It is empty if nothing was fetched.
	// +optional
	Module *ModuleStatus `json:"module,omitempty"`

	// shell is the latest shell in which a user worked with the state by hand. No run starts
	// before it is closed.
	// +optional
	Shell *ShellStatus `json:"shell,omitempty"`

	// pastShells are the shells before it, the newest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	PastShells []ShellStatus `json:"pastShells,omitempty"`

	// history are the finished runs, the newest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	History []RunRecord `json:"history,omitempty"`

	// failure describes why the latest run failed and when it is retried.
	// +optional
	Failure *FailureStatus `json:"failure,omitempty"`

	// runs is the number of runs so far; the next run gets the next number.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Runs int64 `json:"runs,omitempty"`

	// heldBy is the operation, or the interrupted run, that makes the next plan wait for approval.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	HeldBy string `json:"heldBy,omitempty"`

	// interruptedBy is the latest run that was stopped while it changed resources, or the first
	// one after a run that left no report. Until a run succeeds, a plan that destroys resources
	// that are tainted waits for approval.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	InterruptedBy string `json:"interruptedBy,omitempty"`

	// stateChangedBy is the user who has restored, moved or changed the state last, until a run
	// applies the inputs. He must not approve alone what follows from it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	StateChangedBy string `json:"stateChangedBy,omitempty"`

	// drift is the result of the latest comparison of state and resources.
	// +optional
	Drift *DriftStatus `json:"drift,omitempty"`

	// state describes where the state is.
	// +optional
	State *StateStatus `json:"state,omitempty"`

	// connectionSecretName is the Secret that holds the outputs.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ConnectionSecretName string `json:"connectionSecretName,omitempty"`

	// outputs are the outputs that are not sensitive.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Outputs map[string]Value `json:"outputs,omitempty"`

	// outputsSource is what the run used that wrote the outputs. CAPT signs tokens for a
	// cluster, and searches its account, with these credentials only.
	// +optional
	OutputsSource *OutputsSource `json:"outputsSource,omitempty"`

	// host is the workspace of another namespace that runs for this one, because its
	// provider config was lent.
	// +optional
	Host *ObjectReference `json:"host,omitempty"`

	// hostDeletedAt is when CAPT requested the deletion of the workspace in host, which
	// destroys the resources. A host that vanished before that has destroyed nothing.
	// +optional
	HostDeletedAt metav1.Time `json:"hostDeletedAt,omitempty,omitzero"`

	// deletedBy is the user who deleted this object. Where approval is enforced, this user
	// cannot approve the plan that destroys the resources without the verb approve-own.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	DeletedBy string `json:"deletedBy,omitempty"`
}

// OutputsSource is what a run used.
type OutputsSource struct {
	// templateRef is the WorkspaceTemplate.
	// +required
	TemplateRef ObjectReference `json:"templateRef,omitzero"`

	// providerConfigRef is the WorkspaceProviderConfig, if the run had one.
	// +optional
	ProviderConfigRef *ObjectReference `json:"providerConfigRef,omitempty"`
}

// WorkspaceTemplateApply is one application of a WorkspaceTemplate: its
// variables, dependencies, plan, runs, outputs and state.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move-hierarchy="
// +kubebuilder:resource:path=workspacetemplateapplies,singular=workspacetemplateapply,scope=Namespaced,shortName=wsta;ws;workspace;workspaces,categories=capt
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.templateRef.name`,description="Template that is applied"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the workspace is applied and its outputs written"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is not"
// +kubebuilder:printcolumn:name="Resources",type=integer,JSONPath=`.status.state.resources`,description="Resources in the state"
// +kubebuilder:printcolumn:name="Plan",type=string,priority=1,JSONPath=`.status.plan.id`,description="Latest plan"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What it waits for"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 200",message="metadata.name must be at most 200 characters long: the names of the state and of the runs are derived from it"
type WorkspaceTemplateApply struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired application.
	// +required
	Spec WorkspaceTemplateApplySpec `json:"spec"`

	// status is the observed state of the workspace. Server-side apply treats it as one field.
	// +optional
	// +structType=atomic
	// +kubebuilder:default:={"observedGeneration":-1}
	Status WorkspaceTemplateApplyStatus `json:"status,omitempty"`
}

// ProviderConfig returns the reference to the provider config of the workspace: its
// own, else that of its template, else nil.
func (a *WorkspaceTemplateApply) ProviderConfig(template *WorkspaceTemplate) *LocalReference {
	if a.Spec.ProviderConfigRef != nil {
		return a.Spec.ProviderConfigRef
	}
	return template.Spec.Template.Spec.ProviderConfigRef
}

// HostedFor returns namespace and name of the workspace for which this one runs, or empty
// strings. See HostedForAnnotation.
func (a *WorkspaceTemplateApply) HostedFor() (namespace, name string) {
	namespace, name, _ = strings.Cut(a.Annotations[HostedForAnnotation], "/")
	return namespace, name
}

// GetConditions returns the conditions.
func (a *WorkspaceTemplateApply) GetConditions() []metav1.Condition { return a.Status.Conditions }

// SetConditions sets the conditions.
func (a *WorkspaceTemplateApply) SetConditions(conditions []metav1.Condition) {
	a.Status.Conditions = conditions
}

// SetObservedGeneration sets the latest observed generation.
func (a *WorkspaceTemplateApply) SetObservedGeneration(generation int64) {
	a.Status.ObservedGeneration = generation
}

// WorkspaceTemplateApplyList is a list of WorkspaceTemplateApplies.
//
// +kubebuilder:object:root=true
type WorkspaceTemplateApplyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkspaceTemplateApply `json:"items"`
}
