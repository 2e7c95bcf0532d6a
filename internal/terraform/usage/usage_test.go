package usage_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/usage"
)

func TestWait_listsAFewUsers(t *testing.T) {
	tests := []struct {
		users  int
		suffix string
	}{
		{users: 1, suffix: "first: team-a/w0"},
		{users: 5, suffix: "first: team-a/w0, team-a/w1, team-a/w2, team-a/w3, team-a/w4"},
		{users: 7, suffix: "team-a/w4 and 2 more"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.users), func(t *testing.T) {
			g := NewWithT(t)
			var users []client.ObjectKey
			for i := range tt.users {
				users = append(users, client.ObjectKey{Namespace: "team-a", Name: fmt.Sprintf("w%d", i)})
			}

			waiting, ok := fault.AsWaiting(usage.Wait(users))

			g.Expect(ok).To(BeTrue())
			g.Expect(waiting.Reason).To(Equal(infrav1.InUseReason))
			g.Expect(waiting.Message()).To(HaveSuffix(tt.suffix))
		})
	}
}

func TestWait_isNilWithoutUsers(t *testing.T) {
	NewWithT(t).Expect(usage.Wait(nil)).To(Succeed())
}

func TestTemplateChanged(t *testing.T) {
	tests := []struct {
		name string
		ref  infrav1.TemplateReference
		want bool
	}{
		{"same", infrav1.TemplateReference{Name: "network"}, false},
		{"same with its namespace", infrav1.TemplateReference{Name: "network", Namespace: "team-a"}, false},
		{"another name", infrav1.TemplateReference{Name: "eks"}, true},
		{"another namespace", infrav1.TemplateReference{Name: "network", Namespace: "library"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			previous := &infrav1.WorkspaceTemplateApply{}
			previous.Namespace, previous.Spec.TemplateRef.Name = "team-a", "network"
			current := previous.DeepCopy()
			current.Spec.TemplateRef = tt.ref

			NewWithT(t).Expect(usage.TemplateChanged(previous, current)).To(Equal(tt.want))
		})
	}
}
