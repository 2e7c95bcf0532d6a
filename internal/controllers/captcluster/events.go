package captcluster

import (
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
)

var transitionEvents = reconcile.EventTable{
	Rules: []reconcile.EventRule{
		{Conditions: []string{infrav1.InfrastructureReadyCondition, infrav1.DestroyedCondition, infrav1.ControlPlaneGoneCondition}},
	},
	Warnings: []string{
		infrav1.WorkspaceFailedReason,
		infrav1.FieldNotTakenReason,
		infrav1.VPCNotFoundReason,
		infrav1.InvalidOutputReason,
		infrav1.EndpointChangedReason,
		infrav1.WorkspaceNameTakenReason,
		controlplanev1.DeadlineExceededReason,
	},
}
