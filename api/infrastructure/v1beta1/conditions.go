package v1beta1

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
