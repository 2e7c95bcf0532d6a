package captcluster

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// other makes a CAPTCluster one with other infrastructure than a VPC.
func other(i *infrav1.CAPTCluster) {
	i.Spec.WorkspaceTemplateRef = &infrav1.TemplateReference{Name: "balancer"}
}

func TestInfrastructure_isOptional(t *testing.T) {
	g := NewWithT(t)
	r, s := reconciler(t), &scope{infra: newInfra(), cluster: newCluster("KubeadmControlPlane")}
	g.Expect(r.infrastructure(t.Context(), s)).To(Succeed())
	g.Expect(setFailureDomains(t.Context(), s)).To(Succeed())
	conditions.Set(s.infra, metav1.Condition{Type: infrav1.FailureDomainsKnownCondition, Status: metav1.ConditionTrue, Reason: "FailureDomainsKnown"})
	g.Expect(r.provisioned(t.Context(), s)).To(Succeed())
	g.Expect(s.infra.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
	g.Expect(s.infra.Status.WorkspaceRef).To(BeNil())
}

func TestInfrastructure_isThatOfTheTemplate(t *testing.T) {
	g := NewWithT(t)
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "balancer"}}
	conditions.Set(template, metav1.Condition{Type: infrav1.ModuleValidCondition, Status: metav1.ConditionTrue, Reason: infrav1.ModuleNotInspectedReason})
	r, infra := reconciler(t, template), newInfra(other)
	reason, _ := reasonOf(r.infrastructure(t.Context(), &scope{infra: infra, cluster: newCluster("")}))
	g.Expect(reason).To(Equal(infrav1.WaitingForWorkspaceReason))
	apply, err := r.Workspaces.Find(t.Context(), infra)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(apply).To(HaveField("Name", "production-infrastructure"))
	g.Expect(apply.Spec.RequiredOutputs).To(BeEmpty(), "a template need not create a VPC")
	g.Expect(apply.Spec.Variables).To(BeEmpty(), "a remote module gets nothing that it may not declare")
}

func TestRecordOutputs_publishesEndpointAndFailureDomains(t *testing.T) {
	g := NewWithT(t)
	s := &scope{infra: newInfra(other)}
	apply := newWorkspace(metav1.ConditionTrue, "Ready", map[string]string{
		"cluster_endpoint": `"https://api.example.com:6443"`, "azs": `["ignored"]`,
		"failure_domains": `[{"name":"rack-2","control_plane":false,"attributes":{"row":"b"}},{"name":"rack-1"}]`,
	})
	for range 2 {
		s.domains = nil
		g.Expect(s.recordWorkspace(apply)).To(Succeed())
	}
	g.Expect(setFailureDomains(t.Context(), s)).To(Succeed())
	g.Expect(s.infra.Spec.ControlPlaneEndpoint).To(Equal(clusterv1.APIEndpoint{Host: "api.example.com", Port: 6443}))
	g.Expect(s.infra.Status.FailureDomains).To(Equal([]clusterv1.FailureDomain{
		{Name: "rack-1", ControlPlane: new(true)}, {Name: "rack-2", ControlPlane: new(false), Attributes: map[string]string{"row": "b"}},
	}))
}

func TestRecordOutputs_refusesWhatClusterAPICannotUse(t *testing.T) {
	for name, c := range map[string]struct {
		outputs map[string]string
		reason  string
		text    string
	}{
		"another address":   {map[string]string{"cluster_endpoint": `"api2.example.com:6443"`}, infrav1.EndpointChangedReason, "is api2.example.com:6443, but spec.controlPlaneEndpoint is api.example.com:6443"},
		"no address":        {map[string]string{"cluster_endpoint": `"https://"`}, infrav1.InvalidOutputReason, "cluster_endpoint"},
		"a nameless domain": {map[string]string{"failure_domains": `[{"control_plane":true}]`}, infrav1.InvalidOutputReason, "set name of each failure domain"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			endpoint := clusterv1.APIEndpoint{Host: "api.example.com", Port: 6443}
			s := &scope{infra: newInfra(other, func(i *infrav1.CAPTCluster) { i.Spec.ControlPlaneEndpoint = endpoint })}
			err := s.recordWorkspace(newWorkspace(metav1.ConditionTrue, "Ready", c.outputs))
			reason, stalled := reasonOf(err)
			g.Expect(reason).To(Equal(c.reason))
			g.Expect(stalled).To(BeTrue())
			g.Expect(err).To(MatchError(ContainSubstring(c.text)))
			g.Expect(s.infra.Spec.ControlPlaneEndpoint).To(Equal(endpoint))
		})
	}
}

func TestDestroyed_namesRetainedInfrastructure(t *testing.T) {
	g := NewWithT(t)
	s := &scope{infra: newInfra(other, func(i *infrav1.CAPTCluster) {
		i.Spec.RetainVPCOnDelete = true
		i.Status.WorkspaceRef = &infrav1.LocalReference{Name: "production-infrastructure"}
	})}
	g.Expect(destroyedReason(s)).To(Equal(infrav1.InfrastructureRetainedReason))
	g.Expect(destroyedMessage(s)).To(ContainSubstring("production-infrastructure"))
}
