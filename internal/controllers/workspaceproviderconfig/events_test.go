package workspaceproviderconfig

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
		kind, action      string
	}{
		{"invalid", infrav1.ConfigurationValidCondition, "", no, warning, "Check"},
		{"valid after a problem", infrav1.ConfigurationValidCondition, no, yes, normal, "Check"},
		{"valid at first", infrav1.ConfigurationValidCondition, "", yes, none, ""},
		{"unexpected error", infrav1.ConfigurationValidCondition, no, unknown, none, ""},
		{"recovered from an unexpected error", infrav1.ConfigurationValidCondition, unknown, yes, none, ""},
		{"credentials missing", infrav1.CredentialsFoundCondition, yes, no, warning, "Check"},
		{"credentials found", infrav1.CredentialsFoundCondition, no, yes, normal, "Check"},
		{"deletion waits", infrav1.DeletableCondition, "", no, warning, "Delete"},
		{"deletion continues", infrav1.DeletableCondition, no, yes, normal, "Delete"},
		{"Ready repeats the others", clusterv1.ReadyCondition, yes, no, none, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			event, ok := transitionEvents.Event(
				metav1.Condition{Type: tt.condition, Status: tt.previous},
				metav1.Condition{Type: tt.condition, Status: tt.current, Reason: "Reason"},
			)
			g.Expect(ok).To(Equal(tt.kind != none))
			g.Expect(event.Type).To(Equal(tt.kind))
			g.Expect(event.Action).To(Equal(tt.action))
		})
	}
}
