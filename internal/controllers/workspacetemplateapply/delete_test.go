package workspacetemplateapply

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

func TestObsoleteInDeletion_withoutApproval(t *testing.T) {
	run := func(operation terraform.Operation, state string) *runs.Run {
		secret := &corev1.Secret{}
		secret.Annotations = map[string]string{record.OperationAnnotation: string(operation), record.StateAnnotation: state}
		return &runs.Run{Secret: secret}
	}
	used, empty := `{"backend":"kubernetes","resources":2,"confirmation":"Confirmed"}`, `{"backend":"s3","confirmation":"Confirmed"}`
	s := execution.NewScope(&runs.Workspace{Apply: &infrav1.WorkspaceTemplateApply{}})
	s.Policy.DestroyApproval = infrav1.ApprovalManual
	g := NewWithT(t)
	g.Expect(s.ObsoleteInDeletion(run(terraform.OperationDestroy, used))).NotTo(BeEmpty())
	g.Expect(s.ObsoleteInDeletion(run(terraform.OperationDestroy, empty))).To(BeEmpty())
	g.Expect(s.ObsoleteInDeletion(run(terraform.OperationPlanDestroy, used))).To(BeEmpty())
	s.Policies = &terraform.Policies{Policies: []terraform.Policy{{Name: "new"}}}
	g.Expect(s.ObsoleteInDeletion(run(terraform.OperationPlanDestroy, used))).To(Equal("The policies have changed"))
	g.Expect(s.ObsoleteInDeletion(run(terraform.OperationDestroy, empty))).To(BeEmpty(), "no policy decides about an empty state")
	s.Policies = nil
	g.Expect(s.ObsoleteInDeletion(run(terraform.OperationApplyDestroy, used))).NotTo(BeEmpty())
	s.Apply.Status.Plan = &infrav1.PlanStatus{ID: "plan-d", Inputs: runs.DestroyInputs, Waiting: new(true)}
	s.Apply.Spec.ApprovedPlan = "plan-d"
	g.Expect(s.ObsoleteInDeletion(run(terraform.OperationApplyDestroy, used))).To(BeEmpty())
	s.Apply.Spec.RetainWorkspaceOnDelete = true
	g.Expect(s.ObsoleteInDeletion(run(terraform.OperationApplyDestroy, used))).NotTo(BeEmpty())
}

func TestDestroyedMessage(t *testing.T) {
	tests := []struct {
		name       string
		retain     bool
		state      *infrav1.StateStatus
		connection string
		want       string
	}{
		{"destroyed", false, &infrav1.StateStatus{SecretName: "s"}, "c", ""},
		{"retained without a state", true, nil, "", "Resources are retained"},
		{"retained with an empty state", true, &infrav1.StateStatus{}, "", "Resources are retained"},
		{"state in a Secret", true, &infrav1.StateStatus{SecretName: "s", Backend: "kubernetes"}, "", "Resources are retained, state in Secret s"},
		{"state in another backend", true, &infrav1.StateStatus{Backend: "s3"}, "c", "Resources are retained, state in backend s3, outputs in Secret c"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScope("hello")
			s.Apply.Spec.RetainWorkspaceOnDelete = tt.retain
			s.Apply.Status.State, s.Apply.Status.ConnectionSecretName = tt.state, tt.connection
			NewWithT(t).Expect(destroyedMessage(s)).To(Equal(tt.want))
		})
	}
}

func TestDestroyedMessage_namesARunThatMayHoldTheLock(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	s.Apply.Spec.RetainWorkspaceOnDelete = true
	addRun(g, s, terraform.OperationPlanAndApply, terraform.Result{Outcome: runs.OutcomeLost})
	s.Apply.Status.State = &infrav1.StateStatus{Backend: "s3"}
	g.Expect(destroyedMessage(s)).To(HaveSuffix("state in backend s3, run hello-r1 may have left the state locked"))
	s.Apply.Status.State = &infrav1.StateStatus{Backend: "kubernetes", SecretName: "s"}
	g.Expect(destroyedMessage(s)).To(HaveSuffix("state in Secret s"), "a SaveState run has released it")

	s = newScope("hello")
	s.Apply.Spec.RetainWorkspaceOnDelete = true
	addRun(g, s, terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeFailed, LockLeft: true})
	s.Apply.Status.State = &infrav1.StateStatus{Backend: "s3"}
	g.Expect(destroyedMessage(s)).To(HaveSuffix("run hello-r1 may have left the state locked"), "its tool was killed")
}
