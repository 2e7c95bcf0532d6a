package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OperationType is what a user requests.
// +kubebuilder:validation:Enum=Run;CheckDrift;Cancel;Unlock;Restore;State;Move;Adopt;Shell
type OperationType string

const (
	// OperationRun requests a run.
	OperationRun OperationType = "Run"
	// OperationCheckDrift compares the resources with the state. It changes nothing.
	OperationCheckDrift OperationType = "CheckDrift"
	// OperationCancel stops a run gracefully.
	OperationCancel OperationType = "Cancel"
	// OperationUnlock breaks the lock of the state. It is refused while the lock's holder is
	// alive.
	OperationUnlock OperationType = "Unlock"
	// OperationRestore restores a snapshot of the state.
	OperationRestore OperationType = "Restore"
	// OperationState executes a command that reads or changes the state.
	OperationState OperationType = "State"
	// OperationMove moves the state to the backend of another provider config.
	OperationMove OperationType = "Move"
	// OperationAdopt lets the next run use a state that it would refuse.
	OperationAdopt OperationType = "Adopt"
	// OperationShell keeps runs from starting while a user works with the state by hand.
	OperationShell OperationType = "Shell"
)

// OperationPhase is how far an operation is.
// +kubebuilder:validation:Enum=Pending;Running;WaitingForApproval;Succeeded;Failed;Canceled
type OperationPhase string

const (
	// OperationPending means that the operation has not started.
	OperationPending OperationPhase = "Pending"
	// OperationRunning means that a run executes the operation, or that a shell is open.
	OperationRunning OperationPhase = "Running"
	// OperationWaitingForApproval means that the plan of the operation waits for a decision.
	OperationWaitingForApproval OperationPhase = "WaitingForApproval"
	// OperationSucceeded means that the operation was executed.
	OperationSucceeded OperationPhase = "Succeeded"
	// OperationFailed means that the operation was refused, or that its run failed.
	OperationFailed OperationPhase = "Failed"
	// OperationCanceled means that the operation, or its run, was canceled.
	OperationCanceled OperationPhase = "Canceled"
)

// AddressString is the address of a resource or a module.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=1024
type AddressString string

// RunOptions are the options of a run. Without any, the run plans, and applies as the workspace
// does.
type RunOptions struct {
	// planOnly shows the plan and does not apply it.
	// +optional
	PlanOnly bool `json:"planOnly,omitempty"`

	// refreshOnly updates the state to the real resources and changes none of them.
	// +optional
	RefreshOnly bool `json:"refreshOnly,omitempty"`

	// replace are the addresses of resource instances that are replaced.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Replace []AddressString `json:"replace,omitempty"`

	// target are the addresses of the only resources or modules that are planned, with what
	// they depend on.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Target []AddressString `json:"target,omitempty"`

	// import are existing resources that become resources of the state.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Import []ImportedResource `json:"import,omitempty"`
}

// ImportedResource is an existing resource that becomes a resource of the state.
type ImportedResource struct {
	// address is the address of the resource instance in the module.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Address string `json:"address"`

	// id is the provider's ID of the resource.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	ID string `json:"id"`
}

// CancelOptions say which run is stopped.
type CancelOptions struct {
	// run is the ID of the run, as shown in status.run.id of the workspace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Run string `json:"run"`
}

// UnlockOptions say which lock is broken.
type UnlockOptions struct {
	// lock is the ID of the lock, or of the run that is said to hold it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Lock string `json:"lock"`
}

// RestoreOptions say which snapshot is restored.
type RestoreOptions struct {
	// snapshot is the name of the snapshot, as captctl state snapshots shows it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Snapshot string `json:"snapshot"`
}

// StateOptions are a command that reads or changes the state.
type StateOptions struct {
	// command is pull, push, list, show, mv or rm.
	// +required
	// +kubebuilder:validation:Enum=pull;push;list;show;mv;rm
	Command string `json:"command"`

	// args are addresses of resources or modules.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Args []AddressString `json:"args,omitempty"`

	// input is the name of the stored state that push pushes. captctl stores it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=106
	Input string `json:"input,omitempty"`

	// force makes push accept another lineage and an older serial.
	// +optional
	Force bool `json:"force,omitempty"`

	// json makes show return JSON instead of text.
	// +optional
	JSON bool `json:"json,omitempty"`

	// sensitive makes show include sensitive values.
	// +optional
	Sensitive bool `json:"sensitive,omitempty"`

	// publicKey encrypts the output of a command that only reads.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	PublicKey string `json:"publicKey,omitempty"`
}

// MoveOptions say from which backend to which the state moves.
type MoveOptions struct {
	// from is the name of the WorkspaceProviderConfig whose backend has the state. It is empty
	// for none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	From string `json:"from,omitempty"`

	// to is the name of the WorkspaceProviderConfig to whose backend the state moves. It is
	// empty for none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	To string `json:"to,omitempty"`
}

// AdoptOptions say which state the next run may use.
// +kubebuilder:validation:ExactlyOneOf=state;backend
type AdoptOptions struct {
	// state is the version of a state that the workspace shall use although it is not its own or
	// is outdated, or an empty one, as the message of the workspace shows it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	State string `json:"state,omitempty"`

	// backend is the backend to which a user has moved the state by hand, as the message of
	// the workspace shows it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Backend string `json:"backend,omitempty"`
}

// ShellOptions describe the shell of a user. It is open until this object is deleted.
type ShellOptions struct {
	// id identifies the shell. It is the holder of the lock of the state.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=38
	// +kubebuilder:validation:XValidation:rule="self.matches('^shell-[a-z0-9]{1,32}$')",message="id must be shell- and at most 32 lower-case letters and digits"
	ID string `json:"id"`

	// host is the user of the machine and its name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host,omitempty"`

	// reason is why the shell is needed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
}

// WorkspaceOperationSpec is what a user requests. It cannot be changed.
type WorkspaceOperationSpec struct {
	// workspace is the name of the WorkspaceTemplateApply in this namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$')",message="workspace must be the name of a WorkspaceTemplateApply: lower-case letters, digits, '-' and '.', for example network"
	Workspace string `json:"workspace"`

	// type is what is requested. The field of the same name has its options.
	// +required
	Type OperationType `json:"type"`

	// hold makes the plan of a run with options, or the plan after a change of the state, wait for
	// approval, even if other plans of the workspace do not.
	// +optional
	Hold bool `json:"hold,omitempty"`

	// run are the options of type Run.
	// +optional
	Run *RunOptions `json:"run,omitempty"`

	// cancel are the options of type Cancel.
	// +optional
	Cancel *CancelOptions `json:"cancel,omitempty"`

	// unlock are the options of type Unlock.
	// +optional
	Unlock *UnlockOptions `json:"unlock,omitempty"`

	// restore are the options of type Restore.
	// +optional
	Restore *RestoreOptions `json:"restore,omitempty"`

	// state are the options of type State.
	// +optional
	State *StateOptions `json:"state,omitempty"`

	// move are the options of type Move.
	// +optional
	Move *MoveOptions `json:"move,omitempty"`

	// adopt are the options of type Adopt.
	// +optional
	Adopt *AdoptOptions `json:"adopt,omitempty"`

	// shell are the options of type Shell.
	// +optional
	Shell *ShellOptions `json:"shell,omitempty"`

	// workspaceUID is the UID of the workspace. CAPT sets it: a workspace of the same name that
	// is created later, or a copy, does not execute the operation.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=63
	WorkspaceUID types.UID `json:"workspaceUID,omitempty"`

	// requestedBy is the user who created this object. CAPT sets it.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	RequestedBy string `json:"requestedBy,omitempty"`
}

// HasOptions reports whether the operation is a run with options.
func (s *WorkspaceOperationSpec) HasOptions() bool {
	o := s.Run
	return s.Type == OperationRun && (s.Hold || o != nil && (o.PlanOnly || o.RefreshOnly || len(o.Replace)+len(o.Target)+len(o.Import) > 0))
}

// WorkspaceOperationStatus is how far an operation is.
type WorkspaceOperationStatus struct {
	// phase is Pending, Running, WaitingForApproval, Succeeded, Failed or Canceled.
	// +optional
	Phase OperationPhase `json:"phase,omitempty"`

	// message says what the operation waits for, or how it ended.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`

	// run is the ID of the run that executes the operation, or executed it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Run string `json:"run,omitempty"`

	// startedAt is when its run was first seen.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// finishedAt is when it ended.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
}

// WorkspaceOperation requests one operation of a workspace. It is deleted seven days after it
// has ended. To withdraw an operation that has not started, delete it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=workspaceoperations,singular=workspaceoperation,scope=Namespaced,shortName=wso,categories=capt
// +kubebuilder:printcolumn:name="Workspace",type=string,JSONPath=`.spec.workspace`,description="Workspace of the operation"
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`,description="What is requested"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="How far it is"
// +kubebuilder:printcolumn:name="Run",type=string,JSONPath=`.status.run`,description="Run that executes it"
// +kubebuilder:printcolumn:name="By",type=string,JSONPath=`.spec.requestedBy`,description="User who requested it"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the request"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`,description="What it waits for, or how it ended"
type WorkspaceOperation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is requested.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an operation cannot be changed: delete it to withdraw it, and create another one"
	// +kubebuilder:validation:XValidation:rule="!has(self.hold) || self.type in ['Run','Restore','State','Move']",message="hold belongs to type: Run, Restore, State or Move"
	// +kubebuilder:validation:XValidation:rule="self.type == 'Run' || !has(self.run)",message="run belongs to type: Run"
	// +kubebuilder:validation:XValidation:rule="(self.type == 'Cancel') == has(self.cancel)",message="cancel belongs to type: Cancel, which requires it"
	// +kubebuilder:validation:XValidation:rule="(self.type == 'Unlock') == has(self.unlock)",message="unlock belongs to type: Unlock, which requires it"
	// +kubebuilder:validation:XValidation:rule="(self.type == 'Restore') == has(self.restore)",message="restore belongs to type: Restore, which requires it"
	// +kubebuilder:validation:XValidation:rule="(self.type == 'State') == has(self.state)",message="state belongs to type: State, which requires it"
	// +kubebuilder:validation:XValidation:rule="(self.type == 'Move') == has(self.move)",message="move belongs to type: Move, which requires it"
	// +kubebuilder:validation:XValidation:rule="(self.type == 'Adopt') == has(self.adopt)",message="adopt belongs to type: Adopt, which requires it"
	// +kubebuilder:validation:XValidation:rule="(self.type == 'Shell') == has(self.shell)",message="shell belongs to type: Shell, which requires it"
	Spec WorkspaceOperationSpec `json:"spec"`

	// status is how far the operation is.
	// +optional
	Status WorkspaceOperationStatus `json:"status,omitempty"`
}

// Ended reports whether the operation has ended.
func (o *WorkspaceOperation) Ended() bool {
	switch o.Status.Phase {
	case OperationSucceeded, OperationFailed, OperationCanceled:
		return true
	default:
		return false
	}
}

// WorkspaceOperationList is a list of WorkspaceOperations.
//
// +kubebuilder:object:root=true
type WorkspaceOperationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkspaceOperation `json:"items"`
}
