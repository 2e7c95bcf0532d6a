package cluster

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestCluster_becomesAvailableAndLeavesNothingBehind(t *testing.T) {
	h := newHarness(t)
	h.templates()
	h.create(newCluster("demo"), newInfra("demo"), newControlPlane("demo"))

	cluster := h.waitAvailable("demo")

	infra, controlPlane := h.infra("demo"), h.controlPlane("demo")
	h.Expect(infra.Status.VPCID).To(HavePrefix("vpc-"))
	h.Expect(infra.Status.SubnetIDs).To(HaveLen(2))
	h.Expect(cluster.Status.FailureDomains).To(HaveExactElements(HaveField("Name", "zone-a"), HaveField("Name", "zone-b")))
	h.Expect(controlPlane.Status.Version).To(Equal("v1.37.1"))
	h.Expect(controlPlane.Status.Versions).To(HaveExactElements(HaveField("Version", "v1.37.1")))
	// Cluster API writes the status and the spec of a Cluster separately.
	h.Eventually(func() clusterv1.APIEndpoint { return h.cluster("demo").Spec.ControlPlaneEndpoint }, testTimeout).
		Should(Equal(controlPlane.Spec.ControlPlaneEndpoint))
	h.Expect(controlPlane.Spec.ControlPlaneEndpoint.Host).NotTo(ContainSubstring("/"))

	kubeconfig := get(h, "demo-kubeconfig", &corev1.Secret{})
	h.Expect(kubeconfig.Type).To(Equal(clusterv1.ClusterSecretType))
	h.Expect(kubeconfig.Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, "demo"))
	h.Expect(metav1.IsControlledBy(kubeconfig, controlPlane)).To(BeTrue())
	h.Expect(metav1.IsControlledBy(h.apply("demo-vpc"), infra)).To(BeTrue())
	h.Expect(metav1.IsControlledBy(h.apply("demo"), controlPlane)).To(BeTrue())
	h.Expect(get(h, "demo-eks-connection", &corev1.Secret{}).Data).To(HaveKey("cluster_endpoint"))

	h.destroy(cluster)
	h.Eventually(h.leftovers, testTimeout).Should(BeEmpty())
}

func TestCluster_passesFieldsToTheTemplates(t *testing.T) {
	h := newHarness(t)
	h.templates()
	h.create(newCluster("demo"),
		newInfra("demo", func(s *infrav1.CAPTClusterSpec) {
			s.VPCConfig = &infrav1.VPCConfig{Name: "mine", CIDR: "10.1.0.0/16", AvailabilityZones: []string{"one", "two", "three"}}
			s.AdditionalTags = map[string]string{"team": "a"}
		}),
		newControlPlane("demo", func(s *controlplanev1.CAPTControlPlaneSpec) {
			s.AdditionalTags = map[string]string{"team": "b"}
			s.ControlPlaneConfig = &controlplanev1.ControlPlaneConfig{
				Region:         "elsewhere-2",
				EndpointAccess: &controlplanev1.EndpointAccess{Public: new(true), PublicCIDRs: []infrav1.CIDR{"192.0.2.0/24"}},
				Addons:         []controlplanev1.ClusterAddon{{Name: "vpc-cni", Version: "v1"}, {Name: "coredns", ConfigurationValues: `{"replicaCount":2}`}},
			}
		}))
	h.waitReady("demo")

	given := func(name string) (values map[string]any) {
		h.Expect(json.Unmarshal(h.apply(name).Status.Outputs["given"].Raw, &values)).To(Succeed())
		return values
	}
	infra := h.infra("demo")
	h.Expect(given("demo-vpc")).To(Equal(map[string]any{
		"name": "mine", "region": "local-1", "cidr": "10.1.0.0/16", "tags": map[string]any{"team": "a"},
	}))
	h.Expect(infra.Status.SubnetIDs).To(HaveLen(3))
	controlPlane := given("demo")
	h.Expect(controlPlane).To(HaveKeyWithValue("vpc_id", infra.Status.VPCID))
	h.Expect(controlPlane).To(HaveKeyWithValue("subnet_ids", HaveLen(3)))
	h.Expect(controlPlane).To(HaveKeyWithValue("region", "elsewhere-2"))
	h.Expect(controlPlane).To(HaveKeyWithValue("version", "1.37"))
	h.Expect(controlPlane).To(HaveKeyWithValue("tags", map[string]any{"team": "b"}))
	h.Expect(controlPlane).To(HaveKeyWithValue("public", true))
	h.Expect(controlPlane).To(HaveKeyWithValue("cidrs", []any{"192.0.2.0/24"}))
	h.Expect(controlPlane["addons"]).To(Equal(map[string]any{
		"vpc-cni": map[string]any{"version": "v1"},
		"coredns": map[string]any{"configuration_values": `{"replicaCount":2}`},
	}))
}

func TestCluster_setsTheSettingsOfItsWorkspaces(t *testing.T) {
	h := newHarness(t)
	h.templates()
	manual := &infrav1.WorkspaceSettings{Approval: infrav1.ApprovalManual, Drift: &infrav1.DriftPolicy{Action: infrav1.DriftReport}}
	h.create(newCluster("demo"),
		newInfra("demo", func(s *infrav1.CAPTClusterSpec) { s.Workspace = manual }), newControlPlane("demo"))
	waitCondition(h, "demo-vpc", &infrav1.WorkspaceTemplateApply{}, infrav1.AppliedCondition, "False WaitingForApproval")
	h.Expect(h.apply("demo-vpc").Spec.Drift).To(Equal(manual.Drift))

	change(h, "demo", &infrav1.CAPTCluster{}, func(c *infrav1.CAPTCluster) { c.Spec.Workspace = nil })
	cluster := h.waitReady("demo")
	h.Expect(h.apply("demo-vpc").Spec.Approval).To(BeEmpty())
	h.Expect(h.apply("demo-vpc").Spec.Drift).To(BeNil())

	// The settings count even if the object is deleted at once.
	change(h, "demo", &controlplanev1.CAPTControlPlane{}, func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.Workspace = &infrav1.WorkspaceSettings{DestroyApproval: infrav1.ApprovalManual, Retry: &infrav1.RetryPolicy{Limit: new(int32(2))}}
	})
	h.delete(cluster)
	waitCondition(h, "demo", &infrav1.WorkspaceTemplateApply{}, infrav1.DestroyedCondition, "False WaitingForApproval")
	h.Expect(h.apply("demo").Spec.Retry.Limit).To(HaveValue(Equal(int32(2))))
	change(h, "demo", &infrav1.WorkspaceTemplateApply{}, func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = a.Status.Plan.ID })
	h.waitDeleted(cluster)
}

func TestCluster_reportsAFieldThatTheTemplateDoesNotDeclare(t *testing.T) {
	h := newHarness(t)
	h.templates()
	h.create(newCluster("demo"), newInfra("demo", func(s *infrav1.CAPTClusterSpec) {
		s.VPCConfig = &infrav1.VPCConfig{NATGateway: infrav1.NATGatewaySingle}
	}), newControlPlane("demo"))

	c := waitCondition(h, "demo", &infrav1.CAPTCluster{}, infrav1.InfrastructureReadyCondition, "False FieldNotTaken")
	h.Expect(c.Message).To(And(ContainSubstring("spec.vpcConfig.natGateway"), ContainSubstring("nat_gateway"), ContainSubstring("WorkspaceTemplate vpc")))
	h.Expect(h.leftovers()).To(BeEmpty(), "nothing was created")

	change(h, "demo", &infrav1.CAPTCluster{}, func(c *infrav1.CAPTCluster) { c.Spec.VPCConfig = nil })
	h.waitReady("demo")

	change(h, "demo", &controlplanev1.CAPTControlPlane{}, func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.ControlPlaneConfig = &controlplanev1.ControlPlaneConfig{EndpointAccess: &controlplanev1.EndpointAccess{Private: new(true)}}
	})
	c = waitCondition(h, "demo", &controlplanev1.CAPTControlPlane{}, controlplanev1.WorkspaceReadyCondition, "False FieldNotTaken")
	h.Expect(c.Message).To(ContainSubstring("spec.controlPlaneConfig.endpointAccess.private (variable endpoint_private_access)"))
	waitCondition(h, "demo", &controlplanev1.CAPTControlPlane{}, controlplanev1.AvailableCondition, "True")
}
