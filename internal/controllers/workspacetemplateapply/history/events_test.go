package history

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestTransitionEvents(t *testing.T) {
	const none, normal, warning = "", "Normal", "Warning"
	no, yes, unknown := metav1.ConditionFalse, metav1.ConditionTrue, metav1.ConditionUnknown
	tests := []struct {
		name              string
		condition         string
		previous, current metav1.ConditionStatus
		reason            string
		kind, action      string
	}{
		{"run starts", infrav1.AppliedCondition, "", no, infrav1.RunInProgressReason, normal, "Run"},
		{"applied", infrav1.AppliedCondition, no, yes, infrav1.AppliedReason, normal, "Run"},
		{"waits for approval", infrav1.AppliedCondition, no, no, infrav1.WaitingForApprovalReason, normal, "Run"},
		{"fails", infrav1.AppliedCondition, no, no, infrav1.RunFailedReason, warning, "Run"},
		{"is retried", infrav1.AppliedCondition, no, no, infrav1.RetryingReason, warning, "Run"},
		{"times out", infrav1.AppliedCondition, no, no, infrav1.RunTimedOutReason, warning, "Run"},
		{"state is locked", infrav1.AppliedCondition, no, no, infrav1.LockHeldReason, warning, "Run"},
		{"resource is protected", infrav1.AppliedCondition, no, no, infrav1.ProtectedResourceReason, warning, "Run"},
		{"state is too large", infrav1.AppliedCondition, no, no, infrav1.StateTooLargeReason, warning, "Run"},
		{"state is missing", infrav1.AppliedCondition, yes, no, infrav1.StateMissingReason, warning, "Run"},
		{"state of another workspace", infrav1.AppliedCondition, yes, no, infrav1.StateForeignReason, warning, "Run"},
		{"state is outdated", infrav1.AppliedCondition, yes, no, infrav1.StateOutdatedReason, warning, "Run"},
		{"a move is refused", infrav1.AppliedCondition, yes, no, infrav1.InvalidStateCommandReason, warning, "Run"},
		{"outputs are too large", infrav1.AppliedCondition, yes, no, infrav1.OutputsTooLargeReason, warning, "Run"},
		{"backend changed", infrav1.AppliedCondition, yes, no, infrav1.BackendChangedReason, warning, "Run"},
		{"snapshot does not exist", infrav1.AppliedCondition, yes, no, infrav1.SnapshotNotFoundReason, warning, "Run"},
		{"canceled by the user", infrav1.AppliedCondition, no, no, infrav1.RunCanceledReason, normal, "Run"},
		{"interrupted", infrav1.AppliedCondition, no, no, infrav1.RunInterruptedReason, normal, "Run"},
		{"unexpected error", infrav1.AppliedCondition, yes, unknown, clusterv1.InternalErrorReason, warning, "Run"},
		{"destroyed", infrav1.DestroyedCondition, no, yes, infrav1.DestroyedCondition, normal, "Run"},
		{"destruction fails", infrav1.DestroyedCondition, no, no, infrav1.RetryingReason, warning, "Run"},

		{"drifted", infrav1.NoDriftCondition, yes, no, infrav1.DriftDetectedReason, warning, "CheckDrift"},
		{"drift repaired", infrav1.NoDriftCondition, no, yes, infrav1.NoDriftCondition, normal, "CheckDrift"},
		{"no drift at the first check", infrav1.NoDriftCondition, "", yes, infrav1.NoDriftCondition, none, ""},

		{"waits for a Secret", infrav1.DependenciesReadyCondition, "", no, infrav1.WaitingForSecretReason, normal, "Prepare"},
		{"Secret found", infrav1.DependenciesReadyCondition, no, yes, clusterv1.ReadyReason, normal, "Prepare"},
		{"all dependencies ready at first", infrav1.DependenciesReadyCondition, "", yes, clusterv1.ReadyReason, none, ""},
		{"recovered from an unexpected error", infrav1.DependenciesReadyCondition, unknown, yes, clusterv1.ReadyReason, none, ""},
		{"dependency cycle", infrav1.DependenciesReadyCondition, no, no, infrav1.DependencyCycleReason, warning, "Prepare"},
		{"a variable is missing", infrav1.InputsValidCondition, yes, no, infrav1.MissingVariableReason, warning, "Prepare"},
		{"a variable is unknown", infrav1.InputsValidCondition, yes, no, infrav1.UnknownVariableReason, warning, "Prepare"},
		{"a variable is invalid", infrav1.InputsValidCondition, yes, no, infrav1.InvalidVariableReason, warning, "Prepare"},
		{"an output is unknown", infrav1.InputsValidCondition, yes, no, infrav1.UnknownOutputReason, warning, "Prepare"},
		{"unresolved placeholder", infrav1.InputsValidCondition, yes, no, infrav1.UnresolvedPlaceholderReason, warning, "Prepare"},
		{"a variables file is invalid", infrav1.InputsValidCondition, yes, no, infrav1.InvalidVarFileReason, warning, "Prepare"},
		{"a module is invalid", infrav1.InputsValidCondition, yes, no, infrav1.ModuleInvalidReason, warning, "Prepare"},
		{"inputs valid at first", infrav1.InputsValidCondition, "", yes, infrav1.InputsValidCondition, none, ""},
		{"Secret belongs to another owner", infrav1.OutputsWrittenCondition, "", no, infrav1.SecretConflictReason, warning, "Prepare"},
		{"an output has no valid name", infrav1.OutputsWrittenCondition, yes, no, infrav1.InvalidOutputNameReason, warning, "Prepare"},
		{"outputs written at first", infrav1.OutputsWrittenCondition, "", yes, infrav1.OutputsWrittenCondition, none, ""},

		{"Ready repeats the others", clusterv1.ReadyCondition, no, yes, clusterv1.ReadyReason, none, ""},
		{"Paused is not announced", clusterv1.PausedCondition, no, yes, clusterv1.PausedReason, none, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			event, ok := TransitionEvents.Event(
				metav1.Condition{Type: tt.condition, Status: tt.previous},
				metav1.Condition{Type: tt.condition, Status: tt.current, Reason: tt.reason},
			)
			g.Expect(ok).To(Equal(tt.kind != none))
			g.Expect(event.Type).To(Equal(tt.kind))
			g.Expect(event.Action).To(Equal(tt.action))
		})
	}
}
