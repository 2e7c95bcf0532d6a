package generate_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/generate"
	"github.com/appthrust/capt/internal/cli/render"
	"github.com/appthrust/capt/internal/cli/validate"
)

// The declarations of modules as they are published, shortened.
const (
	own = `
variable "cluster_name" { type = string }
variable "kubernetes_version" { type = string }
variable "size" {
  description = "Number of servers"
  type        = number
  default     = 3
}
variable "password" {
  type      = string
  sensitive = true
}
output "endpoint" { value = "https://${var.cluster_name}.example.com" }
output "kubeconfig" {
  value     = "{}"
  sensitive = true
}
`
	eks = `
terraform {
  required_providers {
    aws = { source = "hashicorp/aws", version = ">= 6.0" }
  }
}
variable "name" { default = "" }
variable "kubernetes_version" { default = null }
variable "vpc_id" { default = null }
variable "subnet_ids" {
  type    = list(string)
  default = []
}
variable "addons" {
  type = map(object({
    name              = optional(string)
    before_compute    = optional(bool, false)
    most_recent       = bool
    pod_identity      = optional(list(object({ role_arn = string })))
    configuration     = optional(any)
  }))
  default = null
}
output "cluster_endpoint" { value = "" }
output "cluster_certificate_authority_data" { value = "" }
output "cluster_name" { value = "" }
`
	aks = `
variable "location" { type = string }
variable "cluster_name" {
  type    = string
  default = null
}
variable "kubernetes_version" {
  type    = string
  default = null
}
variable "zones" {
  type    = set(string)
  default = []
}
output "host" {
  value     = ""
  sensitive = true
}
output "cluster_ca_certificate" {
  value     = ""
  sensitive = true
}
output "kube_config_raw" {
  value     = ""
  sensitive = true
}
output "kube_admin_config_raw" {
  value     = ""
  sensitive = true
}
`
	gke = `
terraform {
  required_providers {
    google = { source = "hashicorp/google" }
  }
}
variable "name" { type = string }
variable "kubernetes_version" {
  type    = string
  default = "latest"
}
variable "project_id" { type = string }
output "endpoint" {
  sensitive = true
  value     = ""
}
output "ca_certificate" {
  sensitive = true
  value     = ""
}
`
	network = `
variable "name" { type = string }
variable "cidr" { type = string }
output "vpc_id" { value = "" }
output "private_subnets" { value = [] }
`
	label = `
variable "namespace" { type = string }
output "id" { value = "" }
`
)

// generated generates the objects of a module at an address.
func generated(t *testing.T, content string, options generate.Options) *generate.Result {
	t.Helper()
	g := NewWithT(t)
	module := validate.LocalModule{"main.tf": content}
	if options.Parameters.Source == "" {
		options.Parameters = infrav1.ModuleParameters{Source: infrav1.ModuleSourceRemote, Module: "git::https://example.com/x.git?ref=v1"}
	}
	options.Name = "own"
	inspected := module.Inspect()
	g.Expect(inspected.Diagnostics).To(BeEmpty())
	result, err := generate.New(inspected, options)
	g.Expect(err).NotTo(HaveOccurred())
	return result
}

// check validates the objects of a result and a Cluster of the class with variables. The network
// and its region are of the user.
func check(t *testing.T, content string, result *generate.Result, variables string) []validate.Finding {
	t.Helper()
	g := NewWithT(t)
	if cluster := find[*infrav1.CAPTClusterTemplate](result); cluster != nil {
		cluster.Spec.Template.Spec.Region, cluster.Spec.Template.Spec.VPCTemplateRef = "local", &infrav1.TemplateReference{Name: "net"}
	}
	var manifests bytes.Buffer
	g.Expect((&render.Rendering{Objects: result.Objects}).WriteYAML(&manifests)).To(Succeed())
	if find[*clusterv1.ClusterClass](result) != nil {
		manifests.WriteString("---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  topology:\n    classRef: {name: own}\n    version: v1.35.0\n    variables: " + variables + "\n")
	}
	objects, findings := validate.Parse("generated.yaml", manifests.Bytes(), true)
	g.Expect(findings).To(BeEmpty())
	options := validate.Options{Modules: map[string]validate.LocalModule{"git::https://example.com/x.git?ref=v1": {"main.tf": content}}}
	found, err := validate.Check(t.Context(), objects, options)
	g.Expect(err).NotTo(HaveOccurred(), manifests.String())
	return slices.DeleteFunc(found, func(f validate.Finding) bool {
		return f.Rule == validate.RuleReference && strings.Contains(f.Message, "WorkspaceTemplate net ")
	})
}

// find returns the first object of a type, or its zero value.
func find[T client.Object](result *generate.Result) (found T) {
	for _, obj := range result.Objects {
		if typed, ok := obj.(T); ok {
			return typed
		}
	}
	return found
}

// What is generated is valid, and so are Clusters of it. What CAPT needs and cannot find is listed.
func TestNew_generatesValidObjects(t *testing.T) {
	for name, tc := range map[string]struct {
		module    string
		variables string
		objects   int
		missing   []string
	}{
		"a module of one's own": {
			module: own, variables: "[{name: size, value: 5}]", objects: 4,
			missing: []string{"variable password is required and sensitive: set it with secretKeyRef in spec.template.spec.forProvider.vars of the WorkspaceTemplate"},
		},
		"EKS": {
			module: eks, variables: "[{name: addons, value: {coredns: {most_recent: true, configuration: {a: [1]}}}}]", objects: 4,
			missing: []string{"the module uses the providers aws (hashicorp/aws): configure them in a WorkspaceProviderConfig, and name it with --provider-config, unless they need no configuration"},
		},
		"AKS": {module: aks, variables: "[{name: location, value: westeurope}, {name: zones, value: [a]}]", objects: 4},
		"GKE": {
			module: gke, variables: "[{name: project_id, value: p}]", objects: 4,
			missing: []string{
				"no output kubeconfig: the module must have it, or one of kube_admin_config_raw, admin_kubeconfig, kubeconfig_raw, kube_config_raw, kube_config",
				"the module uses the providers google (hashicorp/google): configure them in a WorkspaceProviderConfig, and name it with --provider-config, unless they need no configuration",
			},
		},
		"a network": {
			module: network, objects: 1,
			missing: []string{"variable cidr (string) has no default: set it in spec.variables of each CAPTCluster"},
		},
		"another module": {
			module: label, objects: 1,
			missing: []string{"variable namespace (string) has no default: set it in spec.variables of each WorkspaceTemplateApply"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			result := generated(t, tc.module, generate.Options{})
			g.Expect(result.Objects).To(HaveLen(tc.objects))
			g.Expect(result.Missing).To(Equal(tc.missing))
			var findings []validate.Finding
			for _, f := range check(t, tc.module, result, tc.variables) {
				// The list of what is missing has the outputs and the values.
				if f.Rule != validate.RuleVariable || len(tc.missing) == 0 {
					findings = append(findings, f)
				}
			}
			g.Expect(findings).To(BeEmpty())
		})
	}
}

func TestNew_connectsKnownNames(t *testing.T) {
	g := NewWithT(t)
	result := generated(t, eks, generate.Options{ProviderConfig: "aws", Network: "net"})
	spec := find[*infrav1.WorkspaceTemplate](result).Spec.Template.Spec
	g.Expect(spec.ForProvider.Vars).To(Equal([]infrav1.Variable{{Key: "name", Value: infrav1.StringValue("${cluster_name}")}}))
	g.Expect(spec.Outputs).To(BeEmpty(), "the module has CAPT's names")
	g.Expect(spec.ProviderConfigRef.Name).To(Equal("aws"))
	g.Expect(find[*controlplanev1.CAPTControlPlaneTemplate](result).Spec.Template.Spec.Kubeconfig).To(BeNil(), "CAPT signs the tokens")
	g.Expect(find[*infrav1.CAPTClusterTemplate](result).Spec.Template.Spec.VPCTemplateRef.Name).To(Equal("net"))
	g.Expect(find[*clusterv1.ClusterClass](result).Spec.Variables).To(HaveLen(1), "the network sets vpc_id and subnet_ids")
	g.Expect(find[*clusterv1.ClusterClass](generated(t, eks, generate.Options{})).Spec.Variables).To(HaveLen(3))
	g.Expect(result.Missing).To(BeEmpty())

	result = generated(t, aks, generate.Options{})
	g.Expect(find[*infrav1.WorkspaceTemplate](result).Spec.Template.Spec.Outputs).To(Equal([]infrav1.SelectedOutput{
		{Name: "cluster_ca_certificate", As: "cluster_certificate_authority_data"},
		{Name: "host", As: "cluster_endpoint"},
		{Name: "kube_admin_config_raw", As: "kubeconfig"},
		{Name: "kube_config_raw"},
	}), "the kubeconfig of an administrator embeds its credentials")
	g.Expect(find[*controlplanev1.CAPTControlPlaneTemplate](result).Spec.Template.Spec.Kubeconfig.Source).To(Equal(controlplanev1.KubeconfigSourceOutput))
}

func TestNew_givesTheClassTheTypesOfTheModule(t *testing.T) {
	g := NewWithT(t)
	names := func(result *generate.Result) (names []string) {
		for _, v := range find[*clusterv1.ClusterClass](result).Spec.Variables {
			names = append(names, v.Name)
		}
		return names
	}
	result := generated(t, own, generate.Options{})
	variables := find[*clusterv1.ClusterClass](result).Spec.Variables
	g.Expect(variables).To(HaveLen(1), "CAPT sets the name and the version, and the password is sensitive")
	g.Expect(variables[0].Schema.OpenAPIV3Schema).To(Equal(clusterv1.JSONSchemaProps{Type: "number", Description: "Number of servers. Default: 3"}))
	g.Expect(*variables[0].Required).To(BeFalse())

	g.Expect(names(generated(t, aks, generate.Options{}))).To(Equal([]string{"location", "zones"}))
	g.Expect(names(generated(t, aks, generate.Options{Variables: []string{}}))).To(Equal([]string{"location"}), "required variables are always there")
	_, err := generate.New(validate.LocalModule{"main.tf": aks}.Inspect(), generate.Options{Variables: []string{"zone"}})
	g.Expect(err).To(MatchError(ContainSubstring(`the module has no variable "zone"`)))

	addons := find[*clusterv1.ClusterClass](generated(t, eks, generate.Options{})).Spec.Variables[0].Schema.OpenAPIV3Schema.AdditionalProperties
	g.Expect(addons.Required).To(Equal([]string{"most_recent"}))
	g.Expect(addons.Properties["pod_identity"].Items.Properties["role_arn"].Type).To(Equal("string"))
	g.Expect(*addons.Properties["configuration"].XPreserveUnknownFields).To(BeTrue())
}

// Only the variables that a Cluster sets are passed: the module has the defaults of the others.
func TestNew_passesVariablesOfTheCluster(t *testing.T) {
	g := NewWithT(t)
	g.Expect(check(t, aks, generated(t, aks, generate.Options{}), "[{name: location, value: [1]}]")).To(ContainElement(HaveField("Message", ContainSubstring("location"))), "the type of the module")
	g.Expect(check(t, aks, generated(t, aks, generate.Options{}), "[]")).To(ContainElement(HaveField("Message", ContainSubstring("location"))), "a required variable")
}

func TestInline_readsADirectory(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	for name, content := range map[string]string{
		"main.tf": own, "outputs.tf": `output "x" { value = 1 }`, "modules/a/main.tf": `variable "b" {}`, "files/init.tpl": "${x}",
		"README.md": "x", "x.tfvars": "password = 1", "terraform.tfstate": "{}", ".terraform/x.tf": "x", "a.tftest.hcl": "x", "examples/a/main.tf": "x", "logo.bin": "\xff",
	} {
		path := filepath.Join(dir, name)
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	}
	parameters, left, err := generate.Inline(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(parameters.Module).To(Equal(own))
	g.Expect(parameters.Files).To(HaveLen(3))
	g.Expect(parameters.Files).To(HaveKeyWithValue("modules/a/main.tf", `variable "b" {}`))
	g.Expect(left).To(ConsistOf("x.tfvars", "logo.bin"))
	g.Expect(check(t, own, generated(t, own, generate.Options{Parameters: parameters}), "[]")).To(HaveExactElements(HaveField("Message", ContainSubstring(`variable "password" is required`))))

	_, _, err = generate.Inline(t.TempDir())
	g.Expect(err).To(MatchError(ContainSubstring("has no .tf files")))
}

func TestNameOf(t *testing.T) {
	for address, want := range map[string]string{
		"terraform-aws-modules/eks/aws":                               "eks",
		"app.terraform.io/example/vpc/aws":                            "vpc",
		"terraform-aws-modules/eks/aws//modules/karpenter":            "karpenter",
		"git::https://example.com/platform/modules.git//k8s?ref=v1.0": "k8s",
		"git::https://example.com/platform/Own_Cluster.git?ref=v1":    "own-cluster",
		"git::ssh://git@example.com/a/b.git":                          "b",
		"github.com/hashicorp/example":                                "example",
		"oci://example.com/modules/own?tag=1":                         "own",
		"./cluster":                                                   "cluster",
		".":                                                           "module",
	} {
		NewWithT(t).Expect(generate.NameOf(address)).To(Equal(want), address)
	}
}
