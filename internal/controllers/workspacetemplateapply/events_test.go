package workspacetemplateapply

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestEventOf(t *testing.T) {
	const none, normal, warning = "", "Normal", "Warning"
	no, yes, unknown := metav1.ConditionFalse, metav1.ConditionTrue, metav1.ConditionUnknown
	tests := []struct {
		name         string
		condition    string
		was, is      metav1.ConditionStatus
		reason       string
		kind, action string
	}{
		{"a run begins", infrav1.AppliedCondition, "", no, infrav1.RunInProgressReason, normal, "Run"},
		{"applied", infrav1.AppliedCondition, no, yes, infrav1.AppliedReason, normal, "Run"},
		{"waits for approval", infrav1.AppliedCondition, no, no, infrav1.WaitingForApprovalReason, normal, "Run"},
		{"fails", infrav1.AppliedCondition, no, no, infrav1.RunFailedReason, warning, "Run"},
		{"fails for now", infrav1.AppliedCondition, no, no, infrav1.RetryingReason, warning, "Run"},
		{"times out", infrav1.AppliedCondition, no, no, infrav1.RunTimedOutReason, warning, "Run"},
		{"is locked", infrav1.AppliedCondition, no, no, infrav1.LockHeldReason, warning, "Run"},
		{"is protected", infrav1.AppliedCondition, no, no, infrav1.ProtectedResourceReason, warning, "Run"},
		{"is too large", infrav1.AppliedCondition, no, no, infrav1.StateTooLargeReason, warning, "Run"},
		{"has lost its state", infrav1.AppliedCondition, yes, no, infrav1.StateMissingReason, warning, "Run"},
		{"has its state elsewhere", infrav1.AppliedCondition, yes, no, infrav1.BackendChangedReason, warning, "Run"},
		{"finds no snapshot", infrav1.AppliedCondition, yes, no, infrav1.SnapshotNotFoundReason, warning, "Run"},
		{"was canceled by a person", infrav1.AppliedCondition, no, no, infrav1.RunCanceledReason, normal, "Run"},
		{"was interrupted", infrav1.AppliedCondition, no, no, infrav1.RunInterruptedReason, normal, "Run"},
		{"met an unexpected error", infrav1.AppliedCondition, yes, unknown, clusterv1.InternalErrorReason, warning, "Run"},
		{"destroyed", infrav1.DestroyedCondition, no, yes, infrav1.DestroyedCondition, normal, "Run"},
		{"destruction fails", infrav1.DestroyedCondition, no, no, infrav1.RetryingReason, warning, "Run"},

		{"drifted", infrav1.NoDriftCondition, yes, no, infrav1.DriftDetectedReason, warning, "CheckDrift"},
		{"mended", infrav1.NoDriftCondition, no, yes, infrav1.NoDriftCondition, normal, "CheckDrift"},
		{"not drifted at first", infrav1.NoDriftCondition, "", yes, infrav1.NoDriftCondition, none, ""},

		{"waits for a Secret", infrav1.DependenciesReadyCondition, "", no, infrav1.WaitingForSecretReason, normal, "Prepare"},
		{"the Secret came", infrav1.DependenciesReadyCondition, no, yes, clusterv1.ReadyReason, normal, "Prepare"},
		{"nothing was missing", infrav1.DependenciesReadyCondition, "", yes, clusterv1.ReadyReason, none, ""},
		{"an error passed", infrav1.DependenciesReadyCondition, unknown, yes, clusterv1.ReadyReason, none, ""},
		{"waits for itself", infrav1.DependenciesReadyCondition, no, no, infrav1.DependencyCycleReason, warning, "Prepare"},
		{"a variable is missing", infrav1.InputsValidCondition, yes, no, infrav1.MissingVariableReason, warning, "Prepare"},
		{"a variable is unknown", infrav1.InputsValidCondition, yes, no, infrav1.UnknownVariableReason, warning, "Prepare"},
		{"a variable is invalid", infrav1.InputsValidCondition, yes, no, infrav1.InvalidVariableReason, warning, "Prepare"},
		{"an output is unknown", infrav1.InputsValidCondition, yes, no, infrav1.UnknownOutputReason, warning, "Prepare"},
		{"a placeholder has no value", infrav1.InputsValidCondition, yes, no, infrav1.UnresolvedPlaceholderReason, warning, "Prepare"},
		{"a variables file is invalid", infrav1.InputsValidCondition, yes, no, infrav1.InvalidVarFileReason, warning, "Prepare"},
		{"a module is invalid", infrav1.InputsValidCondition, yes, no, infrav1.ModuleInvalidReason, warning, "Prepare"},
		{"the inputs fit at once", infrav1.InputsValidCondition, "", yes, infrav1.InputsValidCondition, none, ""},
		{"the Secret is somebody else's", infrav1.OutputsWrittenCondition, "", no, infrav1.SecretConflictReason, warning, "Prepare"},
		{"an output has no valid name", infrav1.OutputsWrittenCondition, yes, no, infrav1.InvalidOutputNameReason, warning, "Prepare"},
		{"the outputs are written", infrav1.OutputsWrittenCondition, "", yes, infrav1.OutputsWrittenCondition, none, ""},

		{"ready repeats the others", clusterv1.ReadyCondition, no, yes, clusterv1.ReadyReason, none, ""},
		{"pausing is no news", clusterv1.PausedCondition, no, yes, clusterv1.PausedReason, none, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			kind, action := eventOf(
				metav1.Condition{Type: tt.condition, Status: tt.was},
				metav1.Condition{Type: tt.condition, Status: tt.is, Reason: tt.reason},
			)
			g.Expect(kind).To(Equal(tt.kind))
			g.Expect(action).To(Equal(tt.action))
		})
	}
}

func TestMessage_isNeverEmpty(t *testing.T) {
	g := NewWithT(t)
	g.Expect(message(metav1.Condition{Type: "Applied", Status: metav1.ConditionTrue, Message: "3 resources"})).To(Equal("3 resources"))
	g.Expect(message(metav1.Condition{Type: "Applied", Status: metav1.ConditionTrue})).To(Equal("Applied is True"))
}
