package workspacetemplate

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestTransitionEvents(t *testing.T) {
	const none, normal, warning = "", "Normal", "Warning"
	no, yes := metav1.ConditionFalse, metav1.ConditionTrue
	tests := []struct {
		name              string
		condition         string
		previous, current metav1.ConditionStatus
		kind, action      string
	}{
		{"invalid", infrav1.ModuleValidCondition, "", no, warning, "Inspect"},
		{"valid after a problem", infrav1.ModuleValidCondition, no, yes, normal, "Inspect"},
		{"valid at first", infrav1.ModuleValidCondition, "", yes, none, ""},
		{"deletion waits", infrav1.DeletableCondition, "", no, warning, "Delete"},
		{"deletion continues", infrav1.DeletableCondition, no, yes, none, ""},
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
