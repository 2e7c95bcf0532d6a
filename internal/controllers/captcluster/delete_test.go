package captcluster

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func TestDestroyProgress(t *testing.T) {
	users := []string{"network interface eni-1 (aws-K8S-i-1)", "security group sg-1 (GuardDuty)"}
	const listed = "In vpc-1 are: network interface eni-1 (aws-K8S-i-1), security group sg-1 (GuardDuty)"
	wait, stall := fault.Wait(infrav1.WaitingForWorkspaceReason, "being destroyed"), fault.Stall(infrav1.WorkspaceFailedReason, "DependencyViolation")
	for name, c := range map[string]struct {
		err     error
		overdue bool
		users   []string
		reason  string
		text    string
	}{
		"running":         {err: wait, reason: infrav1.WaitingForWorkspaceReason, text: "being destroyed"},
		"approval":        {err: fault.Wait(infrav1.WaitingForApprovalReason, "plan-1 waits"), overdue: true, reason: infrav1.WaitingForApprovalReason, text: "plan-1 waits; to leave the VPC vpc-1 and"},
		"blocked":         {err: wait, users: users, reason: infrav1.WaitingForWorkspaceReason, text: "being destroyed. " + listed},
		"overdue":         {err: wait, overdue: true, users: users, reason: controlplanev1.DeadlineExceededReason, text: listed + "; to leave the VPC vpc-1 and"},
		"failed":          {err: stall, users: users, reason: infrav1.WorkspaceFailedReason, text: listed + "; to leave"},
		"failed, unknown": {err: stall, reason: infrav1.WorkspaceFailedReason, text: "DependencyViolation; to leave the VPC vpc-1 and everything else in the state of its workspace in the cloud, set spec.retainVpcOnDelete: true"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := destroyProgress(c.err, c.overdue, "vpc-1", c.users)
			reason, _ := reasonOf(err)
			g.Expect(reason).To(Equal(c.reason))
			g.Expect(err).To(MatchError(ContainSubstring(c.text)))
		})
	}
}

func TestWaitForControlPlane_saysWhatItWaitsFor(t *testing.T) {
	g := NewWithT(t)
	controlPlane := newControlPlane()
	controlPlane.Finalizers, controlPlane.DeletionTimestamp = []string{"test"}, new(metav1.Now())
	conditions.Set(controlPlane, metav1.Condition{Type: clusterv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: "Deleting", Message: "LeftoversGone: load balancer a"})
	infra := newInfra(func(i *infrav1.CAPTCluster) {
		i.Labels = map[string]string{clusterv1.ClusterNameLabel: controlPlane.Labels[clusterv1.ClusterNameLabel]}
	})
	err := reconciler(t, controlPlane).waitForControlPlane(t.Context(), &scope{infra: infra})
	g.Expect(err).To(MatchError(ContainSubstring("must be deleted first: LeftoversGone: load balancer a")))
}
