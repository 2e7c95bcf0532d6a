package captmachine

import (
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
)

var transitionEvents = reconcile.EventTable{
	Rules: []reconcile.EventRule{{}},
	Warnings: []string{
		infrav1.WorkspaceFailedReason,
		infrav1.FieldNotTakenReason,
		infrav1.WorkspaceNameTakenReason,
		infrav1.MissingOutputReason,
		infrav1.ProviderIDChangedReason,
		infrav1.NodeNotReadyReason,
		infrav1.NodeUpdateRejectedReason,
		infrav1.WorkloadClusterUnreachableReason,
		infrav1.DrainTimedOutReason,
	},
}
