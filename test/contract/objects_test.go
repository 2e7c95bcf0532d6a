package contract

import (
	"encoding/json"
	"os"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/appthrust/capt/api/bootstrap/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// vpcModule is a stand-in for a VPC that is created at once.
const vpcModule = `
variable "name" { type = string }
variable "azs" {
  type    = list(string)
  default = ["zone-b", "zone-a"]
}
variable "tags" {
  type    = map(string)
  default = {}
}
resource "terraform_data" "vpc" {
  input = { name = var.name, tags = var.tags }
}
output "vpc_id" { value = "vpc-${substr(sha256(terraform_data.vpc.id), 0, 17)}" }
output "private_subnets" { value = [for az in var.azs : "subnet-${substr(sha256("${terraform_data.vpc.id}${az}"), 0, 17)}"] }
output "azs" { value = var.azs }
`

// controlPlaneModule is a stand-in for a control plane, whose API server is already
// running.
const controlPlaneModule = `
variable "cluster_name" { type = string }
variable "kubernetes_version" { type = string }
variable "vpc_id" { type = string }
variable "subnet_ids" { type = list(string) }
variable "name" {
  type    = string
  default = "none"
}
variable "tags" {
  type    = map(string)
  default = {}
}
variable "cluster_addons" {
  type    = map(object({ version = optional(string), configuration_values = optional(string) }))
  default = {}
}
variable "kubeconfig" {
  type      = string
  sensitive = true
}
resource "terraform_data" "cluster" {
  input = { name = var.cluster_name, vpc = var.vpc_id, version = var.kubernetes_version, tags = var.tags }
}
output "cluster_endpoint" { value = nonsensitive(yamldecode(var.kubeconfig).clusters[0].cluster.server) }
output "cluster_name" { value = var.cluster_name }
output "kubeconfig" {
  value     = var.kubeconfig
  sensitive = true
}
`

// machineModule is a stand-in for an instance.
const machineModule = `
variable "name" { type = string }
variable "cluster_name" { type = string }
variable "bootstrap_secret_name" {
  type    = string
  default = ""
}
variable "availability_zone" {
  type    = string
  default = "zone-b"
}
variable "tags" {
  type    = map(string)
  default = {}
}
resource "terraform_data" "instance" {}
output "provider_id" { value = "local:///${var.availability_zone}/${terraform_data.instance.id}" }
output "availability_zone" { value = var.availability_zone }
output "addresses" {
  value = [{ type = "InternalIP", address = "10.0.0.7" }, { type = "Hostname", address = var.name }]
}
`

// poolModule is a stand-in for a node group.
const poolModule = `
variable "name" { type = string }
variable "cluster_name" { type = string }
variable "desired_size" { type = number }
variable "tags" {
  type    = map(string)
  default = {}
}
resource "terraform_data" "group" {}
output "provider_id" { value = "group-${terraform_data.group.id}" }
output "provider_id_list" {
  value = [for i in range(var.desired_size) : "local:///${terraform_data.group.id}/${i}"]
}
`

// broken makes the run of a module fail with a diagnostic.
const broken = `
resource "terraform_data" "limit" {
  lifecycle {
    precondition {
      condition     = var.name == ""
      error_message = "LimitExceeded: there is no room for another."
    }
  }
}
`

const diagnostic = "LimitExceeded: there is no room for another."

// workloadSecret contains the kubeconfig of the stand-in API server.
const workloadSecret = "workload"

func inline(name, module string) *infrav1.WorkspaceTemplate {
	return &infrav1.WorkspaceTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: infrav1.WorkspaceTemplateSpec{Template: infrav1.WorkspaceTemplateDefinition{Spec: infrav1.WorkspaceSpec{
			ForProvider: infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: module},
		}}},
	}
}

// templates returns the WorkspaceTemplates of a namespace and their Secret.
func (h *harness) templates() []client.Object {
	kubeconfig, err := os.ReadFile(h.env.Kubeconfig)
	h.Expect(err).NotTo(HaveOccurred())
	vars, err := json.Marshal(map[string]string{"kubeconfig": string(kubeconfig)})
	h.Expect(err).NotTo(HaveOccurred())
	controlPlane := inline("control-plane", controlPlaneModule)
	controlPlane.Spec.Template.Spec.ForProvider.VarFiles = []infrav1.VarFile{{
		Source: infrav1.VarFileSourceSecretKey, Format: infrav1.FileFormatJSON,
		SecretKeyReference: &infrav1.KeyReference{Name: workloadSecret, Key: "vars.json"},
	}}
	return []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: workloadSecret}, Data: map[string][]byte{"vars.json": vars}},
		inline("vpc", vpcModule),
		controlPlane,
		inline("machine", machineModule),
		inline("pool", poolModule),
	}
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

func newInfra(name string) *infrav1.CAPTCluster {
	return &infrav1.CAPTCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       infrav1.CAPTClusterSpec{Region: "local-1", VPCTemplateRef: &infrav1.TemplateReference{Name: "vpc"}},
	}
}

func newControlPlane(name string) *controlplanev1.CAPTControlPlane {
	return &controlplanev1.CAPTControlPlane{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: controlplanev1.CAPTControlPlaneSpec{
			Version:              "v1.37.0",
			WorkspaceTemplateRef: infrav1.TemplateReference{Name: "control-plane"},
			Kubeconfig:           &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceOutput},
		},
	}
}

func newMachine(name string) *infrav1.CAPTMachine {
	return &infrav1.CAPTMachine{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       infrav1.CAPTMachineSpec{WorkspaceTemplateRef: infrav1.TemplateReference{Name: "machine"}},
	}
}

func newPool(name string) *infrav1.CAPTMachinePool {
	return &infrav1.CAPTMachinePool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       infrav1.CAPTMachinePoolSpec{WorkspaceTemplateRef: infrav1.TemplateReference{Name: "pool"}},
	}
}

func newConfig(name string) *bootstrapv1.CAPTBootstrapConfig {
	return &bootstrapv1.CAPTBootstrapConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       bootstrapv1.CAPTBootstrapConfigSpec{UserData: "#cloud-config\n"},
	}
}

// machineSpec returns the spec of a Machine whose objects have the same name.
func machineSpec(cluster, name, infraKind string) clusterv1.MachineSpec {
	return clusterv1.MachineSpec{
		ClusterName: cluster,
		Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: bootstrapv1.GroupVersion.Group, Kind: "CAPTBootstrapConfig", Name: name,
		}},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: infraKind, Name: name},
	}
}

// Constructors of empty objects, for reading.
func emptyInfra() *infrav1.CAPTCluster { return &infrav1.CAPTCluster{} }

func emptyControlPlane() *controlplanev1.CAPTControlPlane { return &controlplanev1.CAPTControlPlane{} }

func emptyCluster() *clusterv1.Cluster { return &clusterv1.Cluster{} }

func emptyMachine() *infrav1.CAPTMachine { return &infrav1.CAPTMachine{} }

func emptyPool() *infrav1.CAPTMachinePool { return &infrav1.CAPTMachinePool{} }

func emptyConfig() *bootstrapv1.CAPTBootstrapConfig { return &bootstrapv1.CAPTBootstrapConfig{} }

// The kinds with a role in the contract.
var (
	captCluster = subject{
		role: "InfraCluster", kind: infrav1.GroupVersion.WithKind("CAPTCluster"),
		sample: func(cluster string) client.Object { return newInfra(cluster) },
	}
	captControlPlane = subject{
		role: "ControlPlane", kind: controlplanev1.GroupVersion.WithKind("CAPTControlPlane"),
		sample:        func(cluster string) client.Object { return newControlPlane(cluster) },
		notInTemplate: []string{"version"},
	}
	captMachine = subject{
		role: "InfraMachine", kind: infrav1.GroupVersion.WithKind("CAPTMachine"),
		sample: func(cluster string) client.Object { return newMachine(cluster + "-machine") },
	}
	captMachinePool = subject{
		role: "InfraMachinePool", kind: infrav1.GroupVersion.WithKind("CAPTMachinePool"),
		sample: func(cluster string) client.Object { return newPool(cluster + "-pool") },
	}
	captBootstrapConfig = subject{
		role: "BootstrapConfig", kind: bootstrapv1.GroupVersion.WithKind("CAPTBootstrapConfig"),
		sample: func(cluster string) client.Object { return newConfig(cluster + "-config") },
	}

	subjects = []subject{captCluster, captControlPlane, captMachine, captMachinePool, captBootstrapConfig}
)
