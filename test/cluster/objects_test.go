package cluster

import (
	"encoding/json"
	"os"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

// vpcModule is a stand-in for a VPC that is created at once.
const vpcModule = `
variable "name" { type = string }
variable "region" { type = string }
variable "cidr" {
  type    = string
  default = "10.0.0.0/16"
}
variable "azs" {
  type    = list(string)
  default = ["zone-b", "zone-a"]
}
variable "tags" {
  type    = map(string)
  default = {}
}
resource "terraform_data" "vpc" {
  input = { name = var.name, cidr = var.cidr, tags = var.tags }
}
output "vpc_id" { value = "vpc-${substr(sha256(terraform_data.vpc.id), 0, 17)}" }
output "private_subnets" { value = [for az in var.azs : "subnet-${substr(sha256("${terraform_data.vpc.id}${az}"), 0, 17)}"] }
output "azs" { value = var.azs }
output "given" { value = { name = var.name, region = var.region, cidr = var.cidr, tags = var.tags } }
`

// controlPlaneModule is a stand-in for a control plane, whose API server is already
// running.
const controlPlaneModule = `
variable "cluster_name" { type = string }
variable "kubernetes_version" { type = string }
variable "vpc_id" { type = string }
variable "subnet_ids" { type = list(string) }
variable "region" { type = string }
variable "tags" {
  type    = map(string)
  default = {}
}
variable "endpoint_public_access" {
  type    = bool
  default = false
}
variable "endpoint_public_access_cidrs" {
  type    = list(string)
  default = []
}
variable "cluster_addons" {
  type    = map(object({ version = optional(string), configuration_values = optional(string) }))
  default = {}
}
variable "kubeconfig" {
  type      = string
  sensitive = true
  default   = ""
}
variable "delay" {
  type    = number
  default = 0
}
resource "terraform_data" "cluster" {
  input = { name = var.cluster_name, vpc = var.vpc_id, subnets = var.subnet_ids, version = var.kubernetes_version, tags = var.tags, addons = var.cluster_addons }
  provisioner "local-exec" {
    command = "sleep ${var.delay}"
  }
}
output "cluster_endpoint" { value = nonsensitive(yamldecode(var.kubeconfig).clusters[0].cluster.server) }
output "cluster_name" { value = var.cluster_name }
output "kubeconfig" {
  value     = var.kubeconfig
  sensitive = true
}
output "given" {
  value = {
    vpc_id = var.vpc_id, subnet_ids = var.subnet_ids, region = var.region, tags = var.tags, version = var.kubernetes_version,
    public = var.endpoint_public_access, cidrs = var.endpoint_public_access_cidrs, addons = var.cluster_addons,
  }
}
`

// workloadSecret contains the kubeconfig of the stand-in API server.
const workloadSecret = "workload"

func inline(name, module string, change ...func(*infrav1.WorkspaceSpec)) *infrav1.WorkspaceTemplate {
	spec := infrav1.WorkspaceSpec{ForProvider: infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: module}}
	for _, c := range change {
		c(&spec)
	}
	return &infrav1.WorkspaceTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       infrav1.WorkspaceTemplateSpec{Template: infrav1.WorkspaceTemplateDefinition{Spec: spec}},
	}
}

// templates creates the templates vpc and control-plane. The workload cluster of all
// clusters is the API server of the tests.
func (h *harness) templates() {
	h.t.Helper()
	h.templatesOf(h.env)
}

// templatesOf creates the templates vpc and control-plane, and the Secret with the
// kubeconfig of the workload cluster, which the latter has as an output.
func (h *harness) templatesOf(workload *testenv.Environment) {
	h.t.Helper()
	kubeconfig, err := os.ReadFile(workload.Kubeconfig)
	h.Expect(err).NotTo(HaveOccurred())
	vars, err := json.Marshal(map[string]string{"kubeconfig": string(kubeconfig)})
	h.Expect(err).NotTo(HaveOccurred())
	h.create(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: workloadSecret}, Data: map[string][]byte{"vars.json": vars}},
		inline("vpc", vpcModule),
		inline("control-plane", controlPlaneModule, withKubeconfig),
	)
}

func withKubeconfig(s *infrav1.WorkspaceSpec) {
	s.ForProvider.VarFiles = append(s.ForProvider.VarFiles, infrav1.VarFile{
		Source: infrav1.VarFileSourceSecretKey, Format: infrav1.FileFormatJSON,
		SecretKeyReference: &infrav1.KeyReference{Name: workloadSecret, Key: "vars.json"},
	})
}

func newCluster(name string) *clusterv1.Cluster {
	return &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: clusterv1.ClusterSpec{
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: name},
			ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "CAPTControlPlane", Name: name},
		},
	}
}

func newInfra(name string, change ...func(*infrav1.CAPTClusterSpec)) *infrav1.CAPTCluster {
	c := &infrav1.CAPTCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       infrav1.CAPTClusterSpec{Region: "local-1", VPCTemplateRef: &infrav1.TemplateReference{Name: "vpc"}},
	}
	for _, edit := range change {
		edit(&c.Spec)
	}
	return c
}

func newControlPlane(name string, change ...func(*controlplanev1.CAPTControlPlaneSpec)) *controlplanev1.CAPTControlPlane {
	c := &controlplanev1.CAPTControlPlane{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: controlplanev1.CAPTControlPlaneSpec{
			Version:              "v1.37.0",
			WorkspaceTemplateRef: infrav1.TemplateReference{Name: "control-plane"},
			Kubeconfig:           &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceOutput},
		},
	}
	for _, edit := range change {
		edit(&c.Spec)
	}
	return c
}
