package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RunOperation is the operation of a run.
// +kubebuilder:validation:Enum=Plan;Apply;PlanAndApply;Destroy;PlanDestroy;ApplyDestroy;CheckDrift;RestoreState;SaveState;StateCommand;MoveState
type RunOperation string

// RunOutcome is how a run ended.
// +kubebuilder:validation:Enum=Succeeded;Planned;NoChanges;Blocked;Denied;Failed;Interrupted;Canceled;TimedOut;Lost
type RunOutcome string

// PlanOperation is what applying a plan does.
// +kubebuilder:validation:Enum=Apply;Destroy
type PlanOperation string

const (
	// PlanApply changes resources according to the inputs.
	PlanApply PlanOperation = "Apply"
	// PlanDestroy destroys all resources of a workspace that is being deleted.
	PlanDestroy PlanOperation = "Destroy"
)

// ResourceChange is one change a plan would make.
type ResourceChange struct {
	// address is the resource's address.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Address string `json:"address"`

	// action is what happens to the resource: create, update, replace, delete,
	// read, import, move or forget.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Action string `json:"action"`
}

// ModuleStatus identifies the fetched content of a module.
type ModuleStatus struct {
	// digest is the digest of all fetched files.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Digest string `json:"digest"`

	// revision is the Git commit or the version that the module's address resolved to,
	// if it is known, or the revision of the Flux source.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Revision string `json:"revision,omitempty"`

	// archive is the name of the Secrets with the files, without prefix and number. It
	// is empty if the files are immutable or exceed 4 MiB: then they are fetched again
	// and must have the digest.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Archive string `json:"archive,omitempty"`

	// artifact is the digest of the artifact of the Flux source.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Artifact string `json:"artifact,omitempty"`

	// source is the hash of the module's address or Flux source, version and entrypoint.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Source string `json:"source"`

	// inputs is the hash of the inputs for which the content was resolved.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Inputs string `json:"inputs"`
}

// RunRequest is the operation of a user that a run executes.
type RunRequest struct {
	// id identifies the request.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ID string `json:"id"`

	// arguments are what was requested, as the options of captctl run or another command of captctl.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Arguments string `json:"arguments"`

	// requestedBy is the user who requested it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	RequestedBy string `json:"requestedBy,omitempty"`
}

// ShellStatus records that a user worked with the state by hand.
type ShellStatus struct {
	// id identifies the shell. It is the holder of the lock of the state.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ID string `json:"id"`

	// by is the user who opened the shell, if it is known.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	By string `json:"by,omitempty"`

	// host is the user of the machine and its name, as captctl has reported them.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host,omitempty"`

	// reason is what the user has written about it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`

	// openedAt is when the shell was opened.
	// +required
	OpenedAt metav1.Time `json:"openedAt,omitempty,omitzero"`

	// closedAt is when the shell was closed. It is empty while it is open.
	// +optional
	ClosedAt *metav1.Time `json:"closedAt,omitempty"`
}

// Open reports whether the shell is open.
func (s *ShellStatus) Open() bool { return s != nil && s.ClosedAt == nil }

// PlanStatus summarises a saved plan.
type PlanStatus struct {
	// id identifies the plan; spec.approvedPlan names it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`

	// run is the run that created the plan.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Run string `json:"run,omitempty"`

	// createdAt is when the plan was created.
	// +optional
	CreatedAt metav1.Time `json:"createdAt,omitempty,omitzero"`

	// inputs is the hash of the inputs of the plan.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Inputs string `json:"inputs,omitempty"`

	// operation is what applying the plan does: Apply changes resources according to
	// the inputs, Destroy destroys them because the workspace is being deleted.
	// +optional
	Operation PlanOperation `json:"operation,omitempty"`

	// request is the one-shot operation of the plan, if it is not the plan of the inputs.
	// +optional
	Request *RunRequest `json:"request,omitempty"`

	// waiting reports that the plan has not been applied and waits for approval.
	// +optional
	Waiting *bool `json:"waiting,omitempty"`

	// approvedBy is the user who approved the plan.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ApprovedBy string `json:"approvedBy,omitempty"`

	// approvedAt is when the plan was approved.
	// +optional
	ApprovedAt *metav1.Time `json:"approvedAt,omitempty"`

	// comment is what the user wrote who approved or rejected the plan.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Comment string `json:"comment,omitempty"`

	// add is how many resources would be created.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Add int32 `json:"add"`

	// change is how many resources would be changed in place.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Change int32 `json:"change"`

	// destroy is how many resources would be destroyed, replaced ones included.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Destroy int32 `json:"destroy"`

	// refresh is how many resources of the state would be updated, if the plan only
	// refreshes the state.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Refresh int32 `json:"refresh,omitempty"`

	// changes are the resources that would change, up to 100 of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Changes []ResourceChange `json:"changes,omitempty"`

	// omittedChanges is the number of changes that the list omits.
	// +optional
	// +kubebuilder:validation:Minimum=0
	OmittedChanges int32 `json:"omittedChanges,omitempty"`

	// blocked are the protected resources the plan would destroy or replace, or that
	// the refresh before the plan did not find.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Blocked []string `json:"blocked,omitempty"`

	// policyAction is the strictest action of the policies that the plan violates: a
	// plan that is denied is not applied, and one that requires approval waits for it.
	// +optional
	PolicyAction PolicyAction `json:"policyAction,omitempty"`

	// policyDigest identifies the rules that decided about the plan. If they change
	// before it is applied, it is made again.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	PolicyDigest string `json:"policyDigest,omitempty"`

	// violations are the rules of policies that the plan violates, the strictest first,
	// up to 32 of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Violations []PolicyViolation `json:"violations,omitempty"`
}

// IsWaiting reports whether the plan waits for a decision.
func (p *PlanStatus) IsWaiting() bool { return p != nil && p.Waiting != nil && *p.Waiting }

// RunProgress is the progress of a run.
type RunProgress struct {
	// phase is what the run is doing: Initialising, Planning, Applying or Destroying.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Phase string `json:"phase,omitempty"`

	// done is the number of resources that are finished.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Done int32 `json:"done"`

	// total is the number of resources to change.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Total int32 `json:"total"`

	// current are the resources being worked on now, the oldest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Current []CurrentResource `json:"current,omitempty"`
}

// CurrentResource is a resource being worked on.
type CurrentResource struct {
	// address is the resource's address.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Address string `json:"address"`

	// action is what is being done to it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Action string `json:"action,omitempty"`

	// since is when it began.
	// +optional
	Since metav1.Time `json:"since,omitempty,omitzero"`
}

// RunStatus describes the current run.
type RunStatus struct {
	// id identifies the run, its Secret and its logs.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ID string `json:"id"`

	// operation is what the run does.
	// +required
	Operation RunOperation `json:"operation"`

	// inputs is the hash of the inputs of the run.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Inputs string `json:"inputs,omitempty"`

	// startedAt is when the run was requested.
	// +optional
	StartedAt metav1.Time `json:"startedAt,omitempty,omitzero"`

	// request is the operation that the run executes, if a user requested one.
	// +optional
	Request *RunRequest `json:"request,omitempty"`

	// progress is the progress of the run.
	// +optional
	Progress *RunProgress `json:"progress,omitempty"`
}

// RunRecord is a finished run.
type RunRecord struct {
	// id identifies the run and its logs.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ID string `json:"id"`

	// operation is what the run did.
	// +required
	Operation RunOperation `json:"operation"`

	// outcome is how the run ended.
	// +required
	Outcome RunOutcome `json:"outcome"`

	// startedAt is when the run began.
	// +optional
	StartedAt metav1.Time `json:"startedAt,omitempty,omitzero"`

	// duration is how long it took.
	// +optional
	Duration metav1.Duration `json:"duration,omitempty,omitzero"`

	// summary is what changed, or Terraform's diagnostics in short.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Summary string `json:"summary,omitempty"`

	// request is the operation that the run executed, if a user requested one.
	// +optional
	Request *RunRequest `json:"request,omitempty"`
}

// FailureStatus describes the failure of the latest run.
type FailureStatus struct {
	// reason is why, as in the Applied condition.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason"`

	// message is Terraform's diagnostics in short.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// inputs is the hash of the inputs that failed. Other inputs run at once.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Inputs string `json:"inputs,omitempty"`

	// attempts is how many runs in a row have failed.
	// +required
	// +kubebuilder:validation:Minimum=1
	Attempts int32 `json:"attempts"`

	// nextAt is when the next attempt begins. If it is empty, the run is retried only
	// after a change or at the request of a user.
	// +optional
	NextAt metav1.Time `json:"nextAt,omitempty,omitzero"`
}

// DriftStatus is the result of the latest comparison of state and resources.
type DriftStatus struct {
	// checkedAt is when the resources were last compared.
	// +optional
	CheckedAt metav1.Time `json:"checkedAt,omitempty,omitzero"`

	// failedAt is when the latest check failed, or was canceled, after the last successful one.
	// +optional
	FailedAt metav1.Time `json:"failedAt,omitempty,omitzero"`

	// failure is why the latest check failed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Failure string `json:"failure,omitempty"`

	// failures is how many checks in a row have failed.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Failures int32 `json:"failures,omitempty"`

	// nextAt is when a check that failed is repeated, if that is before the interval has passed.
	// +optional
	NextAt metav1.Time `json:"nextAt,omitempty,omitzero"`

	// resources are the resources that differed, up to 100 of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Resources []ResourceChange `json:"resources,omitempty"`
}

// StateStatus describes where the state is and what it contains.
type StateStatus struct {
	// backend is the kind of backend that holds the state.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Backend string `json:"backend,omitempty"`

	// configuration is the hash of the backend's configuration.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Configuration string `json:"configuration,omitempty"`

	// secretName is the Secret that holds the state, with the Kubernetes backend.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`

	// lineage identifies the state. A run stops if the backend has a state of
	// another lineage.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Lineage string `json:"lineage,omitempty"`

	// serial is the state's serial number. A run stops if the backend has an earlier
	// one.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Serial int64 `json:"serial,omitempty"`

	// resources is how many resources the state holds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Resources int32 `json:"resources,omitempty"`

	// confirmation is Unconfirmed if a run ended without reporting its state, so that
	// the state may have more resources. The next run confirms it.
	// +optional
	Confirmation StateConfirmation `json:"confirmation,omitempty"`

	// templateRef is the WorkspaceTemplate of the last run that could change the state. It
	// cannot be deleted while the state has resources.
	// +optional
	TemplateRef *ObjectReference `json:"templateRef,omitempty"`

	// requirements are the approval and the protection that the template of these resources
	// requires. Another template of the workspace cannot weaken them before a user has approved
	// one of its plans and the plan was applied.
	// +optional
	Requirements *StateRequirements `json:"requirements,omitempty"`
}

// StateRequirements are what a template requires for the resources that were created with it.
type StateRequirements struct {
	// templateRef is the WorkspaceTemplate. It is empty if the requirements are those of
	// several templates.
	// +optional
	TemplateRef *ObjectReference `json:"templateRef,omitempty"`

	// approval is Manual if a plan waits for approval.
	// +optional
	Approval ApprovalMode `json:"approval,omitempty"`

	// destroyApproval is Manual if the deletion waits for an approved plan.
	// +optional
	DestroyApproval ApprovalMode `json:"destroyApproval,omitempty"`

	// protect lists the resources that no plan may destroy or replace.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	Protect []ProtectPattern `json:"protect,omitempty"`
}

// StateConfirmation reports whether the state is known.
// +kubebuilder:validation:Enum=Confirmed;Unconfirmed
type StateConfirmation string

const (
	// StateConfirmed means that the last run reported the state.
	StateConfirmed StateConfirmation = "Confirmed"
	// StateUnconfirmed means that a run may have changed the state since then.
	StateUnconfirmed StateConfirmation = "Unconfirmed"
)

// WorkspaceRunSpec is a finished run of a workspace.
type WorkspaceRunSpec struct {
	// workspace is the name of the WorkspaceTemplateApply in this namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	Workspace string `json:"workspace"`

	RunRecord `json:",inline"`
}

// WorkspaceRun shows a finished run of a workspace, as status.history of the workspace does. Its
// name is the ID of the run. CAPT writes it and does not read it, and it is deleted with the
// Secret of the run.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=workspaceruns,singular=workspacerun,scope=Namespaced,shortName=wsr,categories=capt
// +kubebuilder:printcolumn:name="Workspace",type=string,JSONPath=`.spec.workspace`,description="Workspace of the run"
// +kubebuilder:printcolumn:name="Operation",type=string,JSONPath=`.spec.operation`,description="What the run did"
// +kubebuilder:printcolumn:name="Outcome",type=string,JSONPath=`.spec.outcome`,description="How the run ended"
// +kubebuilder:printcolumn:name="Started",type=date,JSONPath=`.spec.startedAt`,description="Time since the start of the run"
// +kubebuilder:printcolumn:name="Duration",type=string,JSONPath=`.spec.duration`,description="How long the run took"
// +kubebuilder:printcolumn:name="By",type=string,JSONPath=`.spec.request.requestedBy`,description="User who requested the run"
// +kubebuilder:printcolumn:name="Summary",type=string,priority=1,JSONPath=`.spec.summary`,description="What changed, or why the run failed"
type WorkspaceRun struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the run.
	// +required
	Spec WorkspaceRunSpec `json:"spec"`
}

// WorkspaceRunList is a list of WorkspaceRuns.
//
// +kubebuilder:object:root=true
type WorkspaceRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkspaceRun `json:"items"`
}
