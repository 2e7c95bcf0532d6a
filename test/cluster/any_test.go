package cluster

import (
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// balancerModule is a stand-in for a load balancer of a cluster without a VPC.
const balancerModule = `
variable "cluster_name" { type = string }
resource "terraform_data" "balancer" {
  input = var.cluster_name
}
output "cluster_endpoint" { value = "192.0.2.10:6443" }
output "failure_domains" { value = [{ name = "rack-2", control_plane = false }, { name = "rack-1", attributes = { row = "a" } }] }
`

// networkModule is a stand-in for a network of a cloud without VPCs and regions.
const networkModule = `
resource "terraform_data" "network" {}
output "network_id" { value = terraform_data.network.id }
`

// plainModule is a stand-in for a control plane that needs neither a VPC nor a region.
const plainModule = `
variable "cluster_name" { type = string }
variable "kubernetes_version" { type = string }
variable "network_id" { type = string }
variable "kubeconfig" {
  type      = string
  sensitive = true
}
output "cluster_endpoint" { value = nonsensitive(yamldecode(var.kubeconfig).clusters[0].cluster.server) }
output "kubeconfig" {
  value     = var.kubeconfig
  sensitive = true
}
output "given" { value = var.network_id }
`

// The endpoint and the failure domains of a cluster are outputs, and reach Cluster API.
func TestCluster_getsEndpointAndFailureDomainsFromOutputs(t *testing.T) {
	h := newHarness(t)
	h.create(inline("load-balancer", balancerModule))
	cluster := newCluster("demo")
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{}
	h.create(cluster, newInfra("demo", func(s *infrav1.CAPTClusterSpec) {
		*s = infrav1.CAPTClusterSpec{WorkspaceTemplateRef: &infrav1.TemplateReference{Name: "load-balancer"}}
	}))
	h.Eventually(func(g Gomega) {
		found := h.cluster("demo")
		g.Expect(found.Spec.ControlPlaneEndpoint).To(Equal(clusterv1.APIEndpoint{Host: "192.0.2.10", Port: 6443}))
		g.Expect(found.Status.Initialization.InfrastructureProvisioned).To(HaveValue(BeTrue()))
		g.Expect(found.Status.FailureDomains).To(Equal([]clusterv1.FailureDomain{
			{Name: "rack-1", ControlPlane: new(true), Attributes: map[string]string{"row": "a"}}, {Name: "rack-2", ControlPlane: new(false)},
		}))
	}, testTimeout).Should(Succeed())
	waitCondition(h, "demo", &infrav1.CAPTCluster{}, infrav1.InfrastructureReadyCondition, "True Ready: WorkspaceTemplateApply demo-infrastructure is applied")

	h.destroy(h.cluster("demo"))
	h.Expect(h.leftovers()).To(BeEmpty())
}

// Neither a VPC nor a region is needed, and the control plane takes what the network
// reports.
func TestCluster_needsNoCloud(t *testing.T) {
	h := newHarness(t)
	h.templates()
	h.create(inline("network", networkModule), inline("plain", plainModule, withKubeconfig),
		newCluster("demo"),
		newInfra("demo", func(s *infrav1.CAPTClusterSpec) {
			*s = infrav1.CAPTClusterSpec{WorkspaceTemplateRef: &infrav1.TemplateReference{Name: "network"}}
		}),
		newControlPlane("demo", func(s *controlplanev1.CAPTControlPlaneSpec) { s.WorkspaceTemplateRef.Name = "plain" }))
	h.waitReady("demo")
	h.Expect(h.apply("demo").Status.Outputs["given"]).To(Equal(h.apply("demo-infrastructure").Status.Outputs["network_id"]))
	h.destroy(h.cluster("demo"))
}

// A cluster without infrastructure of its own has the endpoint that the user sets.
func TestCluster_needsNoInfrastructure(t *testing.T) {
	h := newHarness(t)
	endpoint := clusterv1.APIEndpoint{Host: "192.0.2.11", Port: 6443}
	cluster := newCluster("demo")
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{}
	h.create(cluster, newInfra("demo", func(s *infrav1.CAPTClusterSpec) { *s = infrav1.CAPTClusterSpec{ControlPlaneEndpoint: endpoint} }))
	h.Eventually(func(g Gomega) {
		g.Expect(h.cluster("demo").Spec.ControlPlaneEndpoint).To(Equal(endpoint))
		g.Expect(h.cluster("demo").Status.Initialization.InfrastructureProvisioned).To(HaveValue(BeTrue()))
	}, testTimeout).Should(Succeed())
	waitCondition(h, "demo", &infrav1.CAPTCluster{}, infrav1.ReadyCondition, "True")
	h.destroy(h.cluster("demo"))
}
