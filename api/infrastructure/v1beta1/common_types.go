package v1beta1

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Annotations by which a user requests an operation on a workspace.
const (
	// RunRequestedAnnotation requests a run; each new value requests another one.
	RunRequestedAnnotation = "capt.appthrust.io/run-requested-at"
	// CheckDriftAnnotation requests a drift check regardless of the drift policy;
	// each new value requests another one. The check changes nothing.
	CheckDriftAnnotation = "capt.appthrust.io/check-drift"
	// CancelRunAnnotation names the run to stop gracefully.
	CancelRunAnnotation = "capt.appthrust.io/cancel-run"
	// AllowDestroyAnnotation lists, comma-separated, the addresses of protected
	// resources that a user allows to be destroyed or replaced.
	AllowDestroyAnnotation = "capt.appthrust.io/allow-destroy"
	// RejectPlanAnnotation names a saved plan that a user rejected.
	RejectPlanAnnotation = "capt.appthrust.io/reject-plan"
	// ForceUnlockAnnotation names the lock to break. It is refused while the lock's
	// holder is alive.
	ForceUnlockAnnotation = "capt.appthrust.io/force-unlock"
	// BackendMovedAnnotation confirms that a user has moved the state to the backend
	// of the given type.
	BackendMovedAnnotation = "capt.appthrust.io/backend-moved"
	// RestoreSnapshotAnnotation names the state snapshot to restore.
	RestoreSnapshotAnnotation = "capt.appthrust.io/restore-snapshot"
)

// Labels of the objects that CAPT creates for a workspace.
const (
	// WorkspaceLabel names the workspace an object belongs to.
	WorkspaceLabel = "capt.appthrust.io/workspace"
	// RunLabel names the run an object belongs to.
	RunLabel = "capt.appthrust.io/run"
	// ComponentLabel is the role of an object: see the Component constants.
	ComponentLabel = "capt.appthrust.io/component"
)

// Conditions and reasons that every kind shares.
const (
	// ReadyCondition summarises the other conditions of an object.
	ReadyCondition = "Ready"
	// PausedCondition reports whether the object is paused.
	PausedCondition = "Paused"

	// DeletableCondition reports, while an object that workspaces use is being
	// deleted, whether no workspace uses it any longer.
	DeletableCondition = "Deletable"
	// InUseReason surfaces when workspaces still need the object to destroy their
	// resources; the message names some of them.
	InUseReason = "InUse"

	// DeletingReason surfaces when the object is being deleted.
	DeletingReason = "Deleting"
	// WaitingForClusterReason surfaces when the owning Cluster has not been set yet.
	WaitingForClusterReason = "WaitingForCluster"
	// WaitingForTemplateReason surfaces when a referenced template does not exist yet.
	WaitingForTemplateReason = "WaitingForTemplate"
	// WaitingForWorkspaceReason surfaces when a workspace has not been applied yet.
	WaitingForWorkspaceReason = "WaitingForWorkspace"
	// WorkspaceNameTakenReason surfaces when a workspace of the desired name
	// belongs to another owner.
	WorkspaceNameTakenReason = "WorkspaceNameTaken"
	// FieldNotTakenReason surfaces when the template has no variable for a field
	// that is set.
	FieldNotTakenReason = "FieldNotTaken"
	// WorkspaceFailedReason surfaces when the workspace behind the object failed;
	// the message carries Terraform's own diagnostics.
	WorkspaceFailedReason = "WorkspaceFailed"
)

// TemplateReference names a WorkspaceTemplate.
type TemplateReference struct {
	// name is the name of the WorkspaceTemplate.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$')",message="name must be the name of an object: lower-case letters, digits, '-' and '.', for example eks-vpc"
	Name string `json:"name"`

	// namespace is the namespace of the WorkspaceTemplate. Defaults to the namespace of
	// the object that refers to it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace must be the name of a namespace: lower-case letters, digits and '-', for example team-a"
	Namespace string `json:"namespace,omitempty"`
}

// Key returns the namespace and name of the WorkspaceTemplate that an object in
// the given namespace refers to.
func (r TemplateReference) Key(namespace string) types.NamespacedName {
	if r.Namespace != "" {
		namespace = r.Namespace
	}
	return types.NamespacedName{Namespace: namespace, Name: r.Name}
}

// ObjectReference names an object of a known kind.
type ObjectReference struct {
	// name is the name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// namespace is the namespace of the object. Defaults to the namespace of the object
	// that refers to it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace must be the name of a namespace: lower-case letters, digits and '-', for example team-a"
	Namespace string `json:"namespace,omitempty"`
}

// LocalReference names an object in the same namespace.
type LocalReference struct {
	// name is the name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$')",message="name must be the name of an object: lower-case letters, digits, '-' and '.', for example aws-production"
	Name string `json:"name"`
}

// KeyReference names one key of a Secret or ConfigMap.
type KeyReference struct {
	// name is the name of the Secret or ConfigMap.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// namespace is the namespace of the Secret or ConfigMap. Only the namespace of
	// the workspace is allowed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace must be the name of a namespace: lower-case letters, digits and '-', for example team-a"
	Namespace string `json:"namespace,omitempty"`

	// key is the key whose value is used.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="key must be a key of a Secret or ConfigMap: letters, digits, '-', '_' and '.'"
	Key string `json:"key"`
}

// TaintEffect is the effect of a taint on pods that do not tolerate it.
// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
type TaintEffect string

// Taint is a taint of a node.
type Taint struct {
	// key is the taint's key.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="key must be a taint key such as dedicated or example.com/dedicated"
	Key string `json:"key"`

	// value is the taint's value.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="value must be a label value: letters, digits, '-', '_' and '.', for example gpu"
	Value string `json:"value,omitempty"`

	// effect is the effect on pods that do not tolerate the taint.
	// +required
	Effect TaintEffect `json:"effect"`
}

// MachineDeletePolicy chooses which machine is deleted first when a set scales
// down.
// Every policy first deletes machines with the annotation
// cluster.x-k8s.io/delete-machine.
// +kubebuilder:validation:Enum=Random;Newest;Oldest
type MachineDeletePolicy string

// The policies by which a set chooses the machine to delete.
const (
	// RandomMachineDeletePolicy prefers unhealthy machines, then any.
	RandomMachineDeletePolicy MachineDeletePolicy = "Random"
	// NewestMachineDeletePolicy deletes the newest machine first.
	NewestMachineDeletePolicy MachineDeletePolicy = "Newest"
	// OldestMachineDeletePolicy deletes the oldest machine first.
	OldestMachineDeletePolicy MachineDeletePolicy = "Oldest"
)

// RollingUpdate limits a rolling update.
// +kubebuilder:validation:XValidation:rule="!(has(self.maxSurge) && has(self.maxUnavailable) && (self.maxSurge == 0 || self.maxSurge == '0%') && (self.maxUnavailable == 0 || self.maxUnavailable == '0%'))",message="maxSurge and maxUnavailable cannot both be 0: set one of them to at least 1"
type RollingUpdate struct {
	// maxSurge is how many machines may exist above the desired number, as a
	// number or a percentage. Defaults to 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[0-9]{1,2})%$')",message="maxSurge must be a number of 0 or more, or a percentage such as 25%"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// maxUnavailable is how many of the desired machines may be unavailable, as a
	// number or a percentage. Defaults to 0.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[0-9]{1,2})%$')",message="maxUnavailable must be a number of 0 or more, or a percentage such as 25%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// deletePolicy chooses which machine of an old set is deleted first. Defaults to
	// the set's own policy.
	// +optional
	DeletePolicy MachineDeletePolicy `json:"deletePolicy,omitempty"`
}
