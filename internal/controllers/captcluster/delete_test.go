package captcluster

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/grant"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
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

// Lent credentials reveal what is in a VPC only if a run with them has created it.
func TestVPCUsers_areOfTheVPCThatARunCreated(t *testing.T) {
	lent := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "vpc"}}
	lent.Spec.Template.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: "aws"}
	config := &infrav1.WorkspaceProviderConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "aws"}}
	granted := &infrav1.CAPTReferenceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "team"}, Spec: infrav1.CAPTReferenceGrantSpec{
		From: []infrav1.ReferenceGrantFrom{{Namespaces: []string{"team"}}},
		To:   []infrav1.ReferenceGrantTo{{Kind: infrav1.GrantedWorkspaceTemplate}, {Kind: infrav1.GrantedWorkspaceProviderConfig}},
	}}
	ref := infrav1.ObjectReference{Namespace: "platform", Name: "vpc"}
	for name, c := range map[string]struct {
		vpc    string
		hosted bool
		listed bool
	}{
		"created by a run with them": {"vpc-1", true, true},
		"outputs of the team":        {"vpc-1", false, false},
		"another VPC":                {"vpc-2", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			infra := newInfra(func(i *infrav1.CAPTCluster) {
				i.Spec.VPCTemplateRef, i.Status.VPCID = &infrav1.TemplateReference{Namespace: "platform", Name: "vpc"}, c.vpc
			})
			apply := newWorkspace(metav1.ConditionTrue, "Ready", map[string]string{"vpc_id": `"vpc-1"`})
			apply.Namespace = "team"
			g.Expect(controllerutil.SetControllerReference(infra, apply, scheme.New())).To(Succeed())
			host := apply.DeepCopy()
			host.ObjectMeta = metav1.ObjectMeta{Namespace: "platform", Name: "team.production-vpc", Annotations: map[string]string{infrav1.HostedForAnnotation: "team/production-vpc"}}
			host.Status.OutputsSource = &infrav1.OutputsSource{TemplateRef: ref, ProviderConfigRef: &infrav1.ObjectReference{Namespace: "platform", Name: "aws"}}
			if c.hosted {
				apply.Status.Host = &infrav1.ObjectReference{Namespace: "platform", Name: "team.production-vpc"}
			}
			r := reconciler(t, lent, config, granted, apply, host)
			r.Workspaces.Grants = &grant.Checker{Client: r.Client, Live: r.Client}
			r.Cloud = &fakeCloud{}
			g.Expect(r.vpcUsers(t.Context(), &scope{infra: infra})).To(HaveLen(map[bool]int{true: 1}[c.listed]))
		})
	}
}
