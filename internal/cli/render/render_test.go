package render_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/render"
	"github.com/appthrust/capt/internal/cli/validate"
	"github.com/appthrust/capt/internal/testenv"
)

// given decodes manifests: files of the repository, or texts.
func given(t *testing.T, manifests ...string) []client.Object {
	t.Helper()
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	var objects []*validate.Object
	for _, manifest := range manifests {
		text := []byte(manifest)
		if strings.HasSuffix(manifest, ".yaml") {
			text, err = os.ReadFile(filepath.Join(root, manifest))
			g.Expect(err).NotTo(HaveOccurred())
		}
		found, findings := validate.Parse(manifest, text, true)
		g.Expect(findings).To(BeEmpty())
		objects = append(objects, found...)
	}
	decoded, findings, err := validate.Decode(t.Context(), objects, validate.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	for _, f := range findings {
		g.Expect(f.Rule).To(BeElementOf(validate.RuleReference, validate.RuleVariable), "%s", f)
	}
	return decoded
}

func rendered(t *testing.T, objects []client.Object, options render.Options) *render.Rendering {
	t.Helper()
	r, err := render.Render(t.Context(), objects, options)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return r
}

// expectValid checks rendered objects with schema, CEL rules and webhooks.
func expectValid(t *testing.T, r *render.Rendering) {
	t.Helper()
	g := NewWithT(t)
	var out bytes.Buffer
	g.Expect((&render.Rendering{Objects: r.Objects}).WriteYAML(&out)).To(Succeed())
	objects, findings := validate.Parse("rendered", out.Bytes(), true)
	g.Expect(findings).To(BeEmpty())
	g.Expect(objects).To(HaveLen(len(r.Objects)))
	findings, err := validate.Check(t.Context(), objects, validate.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(validate.Failed(findings)).To(BeFalse(), "%v", findings)
}

func workspaceNamed(r *render.Rendering, name string) *infrav1.WorkspaceTemplateApply {
	for _, obj := range r.Objects {
		if apply, ok := obj.(*infrav1.WorkspaceTemplateApply); ok && apply.Name == name {
			return apply
		}
	}
	return nil
}

func haveVariable(name, value string) types.GomegaMatcher {
	return HaveField("Spec.Variables", HaveKeyWithValue(name, WithTransform(func(v infrav1.Value) string { return string(v.Raw) }, MatchJSON(value))))
}

func TestRender_workspacesOfACluster(t *testing.T) {
	g := NewWithT(t)
	r := rendered(t, given(t, "examples/cluster.yaml", "examples/machine-pool.yaml", "templates/vpc.yaml", "templates/eks-controlplane-template-v2.yaml", "templates/eks-node-group.yaml"), render.Options{})

	g.Expect(r.Problems).To(BeEmpty())
	g.Expect(r.Runs).To(BeEmpty(), "runs are not requested")
	vpc := workspaceNamed(r, "production-vpc")
	g.Expect(vpc).To(And(haveVariable("nat_gateway", `"Single"`), haveVariable("name", `"production-vpc"`)))
	controlPlane := workspaceNamed(r, "production")
	g.Expect(controlPlane).To(And(
		haveVariable("kubernetes_version", `"1.35"`),
		haveVariable("vpc_id", `"(output vpc_id of WorkspaceTemplateApply production-vpc)"`),
		HaveField("Spec.WaitForWorkspaces", ConsistOf(infrav1.ObjectReference{Name: "production-vpc"})),
		HaveField("Spec.WriteConnectionSecretToRef.Name", "production-eks-connection"),
	))
	g.Expect(workspaceNamed(r, "spot")).To(And(haveVariable("capacity_type", `"SPOT"`), haveVariable("desired_size", "3")))
	expectValid(t, r)
}

func TestRender_usesAnExistingVPC(t *testing.T) {
	g := NewWithT(t)
	r := rendered(t, given(t, "examples/cluster-existing-vpc.yaml", "templates/eks-controlplane-template-v2.yaml"), render.Options{})
	g.Expect(r.Objects).To(HaveLen(1))
	g.Expect(workspaceNamed(r, "staging")).To(And(
		haveVariable("vpc_id", `"vpc-0123456789abcdef0"`), haveVariable("subnet_ids", `["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]`)))
}

func TestRender_topology(t *testing.T) {
	g := NewWithT(t)
	cluster := `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: demo}
spec:
  topology:
    classRef: {name: local}
    version: v1.36.0
    variables:
    - {name: tags, value: {team: a}}
    workers:
      machineDeployments: [{class: node, name: nodes, replicas: 2}]
      machinePools: [{class: node-group, name: group, replicas: 3}]
`
	r := rendered(t, given(t, cluster, "clusterclasses/local.yaml", "templates/local-vpc.yaml", "templates/local-controlplane.yaml", "templates/local-node-group.yaml"), render.Options{Runs: true})

	g.Expect(r.Problems).To(BeEmpty())
	g.Expect(workspaceNamed(r, "demo")).To(And(
		haveVariable("tags", `{"team": "a"}`), haveVariable("with", `["controller-manager", "scheduler", "kwok", "workloads"]`), haveVariable("kubernetes_version", `"1.36"`),
	), "patches use the defaults of variables")
	g.Expect(workspaceNamed(r, "demo-vpc")).To(haveVariable("tags", `{"team": "a"}`))
	g.Expect(workspaceNamed(r, "demo-group")).To(haveVariable("desired_size", "3"))
	g.Expect(r.Objects).To(ContainElement(And(BeAssignableToTypeOf(&clusterv1.MachineDeployment{}), HaveField("Name", "demo-nodes"))))
	g.Expect(r.Runs).To(HaveLen(3))
	expectValid(t, r)

	again := rendered(t, given(t, cluster, "clusterclasses/local.yaml", "templates/local-vpc.yaml", "templates/local-controlplane.yaml", "templates/local-node-group.yaml"), render.Options{Runs: true})
	g.Expect(asJSON(t, again)).To(Equal(asJSON(t, r)), "rendering is deterministic")
}

// Karpenter and Fargate are variables of the class of EKS, and workers override others.
func TestRender_classOfEKS(t *testing.T) {
	g := NewWithT(t)
	templates := []string{"clusterclasses/eks.yaml", "templates/vpc.yaml", "templates/eks-controlplane-template-v2.yaml", "templates/eks-machine.yaml", "templates/eks-node-group.yaml"}
	r := rendered(t, given(t, append(templates, "examples/cluster-class-workers.yaml")...), render.Options{})
	g.Expect(r.Problems).To(BeEmpty())
	g.Expect(workspaceNamed(r, "topology-workers")).To(And(
		haveVariable("compute", `"ManagedNodeGroup"`), haveVariable("fargate_profiles", `{"jobs": {"selectors": [{"namespace": "jobs"}]}}`),
		haveVariable("endpoint_public_access", "true"), HaveField("Spec.Variables", Not(HaveKey("karpenter_node_pool")))))
	g.Expect(workspaceNamed(r, "topology-workers-batch")).To(And(haveVariable("capacity_type", `"SPOT"`), haveVariable("labels", `{"example.com/capacity": "spot"}`)))
	expectValid(t, r)

	const cluster = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: demo}
spec:
  topology:
    classRef: {name: eks}
    version: v1.35.0
    variables:
    - {name: region, value: eu-west-1}
    - {name: endpointPublicCIDRs, value: []}
    - {name: existingVpcId, value: vpc-0123456789abcdef0}
    - {name: existingSubnetIds, value: [subnet-0123456789abcdef0, subnet-0123456789abcdef1]}
    - {name: access, value: {entries: [{name: admins, principalARN: "arn:aws:iam::123456789012:role/admin", policies: [{name: AmazonEKSClusterAdminPolicy}]}]}}
    - {name: deletion, value: {volumes: Delete}}
    - {name: deletionProtection, value: true}
    - {name: compute, value: Fargate}
    - {name: karpenterNodePool, value: {architectures: [arm64], cpu_limit: "10"}}
    - {name: addonRoles, value: [{name: AWSLoadBalancerController}]}
    - {name: addons, value: [{name: metrics-server}]}
    - {name: privateAccessCIDRs, value: [10.200.0.0/16]}
    - {name: permissionsBoundaryARN, value: "arn:aws:iam::123456789012:policy/boundary"}
    - {name: tags, value: {team: a}}
    workers:
      machinePools:
      - {class: node-group, name: nodes, replicas: 1}
`
	r = rendered(t, given(t, append(templates, cluster)...), render.Options{})
	g.Expect(r.Problems).To(BeEmpty())
	g.Expect(workspaceNamed(r, "demo-vpc")).To(BeNil(), "the VPC exists")
	g.Expect(workspaceNamed(r, "demo")).To(And(
		haveVariable("compute", `"Fargate"`), haveVariable("vpc_id", `"vpc-0123456789abcdef0"`), haveVariable("endpoint_public_access", "false"),
		haveVariable("karpenter_node_pool", `{"architectures": ["arm64"], "cpu_limit": "10"}`), haveVariable("aws_load_balancer_controller_role", "true"), haveVariable("tags", `{"team": "a"}`),
		haveVariable("private_access_cidrs", `["10.200.0.0/16"]`), haveVariable("cluster_addons", `{"metrics-server": {}}`),
		haveVariable("subnet_ids", `["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]`), haveVariable("deletion_protection", "true"),
		HaveField("Spec.Variables", HaveKey("access_entries"))))
	for _, name := range []string{"demo", "demo-nodes"} {
		g.Expect(workspaceNamed(r, name)).To(haveVariable("permissions_boundary_arn", `"arn:aws:iam::123456789012:policy/boundary"`), name)
	}
	g.Expect(r.Objects).To(ContainElement(And(BeAssignableToTypeOf(&controlplanev1.CAPTControlPlane{}), HaveField("Spec.Deletion", HaveValue(HaveField("Volumes", controlplanev1.VolumesDelete))))))
	expectValid(t, r)
}

// The VPC of a cluster has a workspace only if CAPT creates it.
func TestRender_classOfEKSSetsWhatWorkspacesRequire(t *testing.T) {
	const cluster = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: demo}
spec:
  topology:
    classRef: {name: eks}
    version: v1.35.0
    variables:
    - {name: region, value: eu-west-1}
    - {name: endpointPublicCIDRs, value: []}
    - {name: workspace, value: {approval: Manual, protect: [aws_vpc], drift: {action: Report}}}
`
	manual := And(HaveField("Spec.Approval", infrav1.ApprovalManual), HaveField("Spec.Protect", HaveLen(1)), HaveField("Spec.Drift.Action", infrav1.DriftReport))
	for name, c := range map[string]struct {
		variable string
		vpc      types.GomegaMatcher
	}{
		"a VPC of CAPT":   {"", manual},
		"an existing VPC": {"    - {name: existingVpcId, value: vpc-0123456789abcdef0}\n", BeNil()},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := rendered(t, given(t, "clusterclasses/eks.yaml", "templates/vpc.yaml", "templates/eks-controlplane-template-v2.yaml", cluster+c.variable), render.Options{})
			g.Expect(r.Problems).To(BeEmpty())
			g.Expect(workspaceNamed(r, "demo")).To(manual)
			g.Expect(workspaceNamed(r, "demo-vpc")).To(c.vpc)
			expectValid(t, r)
		})
	}
}

func asJSON(t *testing.T, r *render.Rendering) string {
	t.Helper()
	var out bytes.Buffer
	NewWithT(t).Expect(r.WriteJSON(&out)).To(Succeed())
	return out.String()
}

const workspaceManifests = `apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplate
metadata: {name: database}
spec:
  template:
    spec:
      providerConfigRef: {name: aws}
      forProvider:
        source: Inline
        module: |
          variable "name" { type = string }
          variable "size" { type = number }
          variable "password" { type = string }
          variable "token" {
            type      = string
            sensitive = true
          }
        vars:
        - {key: name, value: "${WORKSPACE_NAME}-db"}
        - {key: size, configMapKeyRef: {name: sizes, key: database}}
        - {key: password, secretKeyRef: {name: "${WORKSPACE_NAME}", key: password}}
        env:
        - {name: REGION, value: "${region}"}
        - {name: API_TOKEN, secretKeyRef: {name: api, key: token}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceProviderConfig
metadata: {name: aws}
spec:
  credentials: [{env: AWS_SECRET_ACCESS_KEY, secretRef: {name: aws, key: secret}}]
  configuration: provider "aws" {}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata: {name: demo}
spec:
  templateRef: {name: database}
  variables: {region: eu-west-1, token: hush-hush}
  writeConnectionSecretToRef: {name: "${WORKSPACE_NAME}-outputs"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: sizes}
data: {database: "20"}
---
apiVersion: v1
kind: Secret
metadata: {name: demo}
stringData: {password: hunter2}
`

func TestRender_inputOfTerraformWithoutSecrets(t *testing.T) {
	g := NewWithT(t)
	r := rendered(t, given(t, workspaceManifests), render.Options{})

	g.Expect(r.Problems).To(BeEmpty())
	g.Expect(r.Runs).To(HaveLen(1))
	run := r.Runs[0]
	variables, err := json.Marshal(run.Variables)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(variables).To(MatchJSON(`{"name": "demo-db", "size": "20", "password": "(key password of Secret demo)", "token": "(sensitive)"}`))
	g.Expect(run.Env).To(Equal(map[string]string{
		"REGION": "eu-west-1", "API_TOKEN": "(key token of Secret api)", "AWS_SECRET_ACCESS_KEY": "(key secret of Secret aws)",
	}))
	g.Expect(run.ConnectionSecret).To(Equal("demo-outputs"))
	g.Expect(run.Files).To(HaveKey("main.tf"))
	g.Expect(run.Files).To(HaveKeyWithValue("capt_provider_config.tf", `provider "aws" {}`))
	var out bytes.Buffer
	g.Expect(r.WriteYAML(&out)).To(Succeed())
	g.Expect(out.String()).NotTo(ContainSubstring("hunter2"))
	g.Expect(out.String()).NotTo(ContainSubstring("hush-hush"))
}

func TestRender_reportsFieldsWithoutAVariable(t *testing.T) {
	g := NewWithT(t)
	cluster := strings.NewReplacer("name: vpc", "name: spot-role").Replace(read(t, "examples/cluster.yaml"))
	r := rendered(t, given(t, cluster, "templates/spot-role.yaml"), render.Options{})
	g.Expect(r.Problems).To(ContainElement(And(
		HaveField("Object", BeAssignableToTypeOf(&infrav1.CAPTCluster{})), HaveField("Message", ContainSubstring("WorkspaceTemplate spot-role has no variable for spec.vpcConfig.availabilityZones")))))
	g.Expect(r.Notes).To(ContainElement(ContainSubstring("WorkspaceTemplate default/eks-controlplane-template-v2 is not among the manifests")))
}

func read(t *testing.T, path string) string {
	t.Helper()
	root, err := testenv.Root()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(root, path))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(text)
}

func TestRender_addonsOfACluster(t *testing.T) {
	g := NewWithT(t)
	addon := given(t, "addons/karpenter.yaml")
	outputs := map[string][]byte{
		"cluster_name": []byte("demo"), "cluster_endpoint": []byte("https://hidden.example.com"), "karpenter_queue_name": []byte("queue"),
		"karpenter_identity": []byte("IRSA"), "karpenter_irsa_role_arn": []byte("arn"),
	}
	g.Expect(rendered(t, addon, render.Options{}).Notes).To(ContainElement(ContainSubstring("pass its name with --cluster")))
	r := rendered(t, addon, render.Options{Cluster: "demo", Outputs: outputs})
	g.Expect(r.Problems).To(BeEmpty())
	g.Expect(r.Objects).To(HaveLen(2))
	g.Expect(r.Objects[0].GetObjectKind().GroupVersionKind().Kind).To(Equal("ClusterResourceSet"))
	g.Expect(r.Objects[1]).To(HaveField("StringData", HaveKeyWithValue("r-release.yaml", ContainSubstring("kind: HelmRelease"))))

	g.Expect(asJSON(t, r)).To(ContainSubstring("cluster_endpoint: (sensitive)"))
	g.Expect(asJSON(t, r)).NotTo(ContainSubstring("hidden.example.com"))

	const annotation = `serviceAccount.annotations.eks\\.amazonaws\\.com/role-arn`
	g.Expect(asJSON(t, r)).To(ContainSubstring(annotation))
	outputs["karpenter_identity"] = []byte("PodIdentity")
	delete(outputs, "karpenter_irsa_role_arn")
	r = rendered(t, addon, render.Options{Cluster: "demo", Outputs: outputs})
	g.Expect(r.Problems).To(BeEmpty())
	g.Expect(asJSON(t, r)).NotTo(ContainSubstring(annotation), "the SDK prefers the role of the annotation")
	delete(outputs, "karpenter_identity")
	r = rendered(t, addon, render.Options{Cluster: "demo", Outputs: outputs})
	g.Expect(r.Problems).To(ContainElement(HaveField("Message", ContainSubstring("refers to key karpenter_identity"))), "an older template")
	outputs["karpenter_identity"] = []byte("PodIdentity")

	// Karpenter's nodes use the subnets of the cluster, also those of an existing VPC.
	outputs["karpenter_node_class_spec"] = []byte(`{"instanceProfile":"profile","subnetSelectorTerms":[{"id":"subnet-1"},{"id":"subnet-2"}],"securityGroupSelectorTerms":[{"id":"sg-1"}]}`)
	outputs["karpenter_node_pool_spec"] = []byte(`{"limits":{"cpu":"1000"},"template":{"spec":{"requirements":[{"key":"kubernetes.io/arch","operator":"In","values":["arm64"]}]}}}`)
	r = rendered(t, given(t, "addons/karpenter-nodepool.yaml"), render.Options{Cluster: "demo", Outputs: outputs})
	g.Expect(r.Problems).To(BeEmpty())
	g.Expect(asJSON(t, r)).To(And(
		ContainSubstring(`instanceProfile: profile\n`),
		ContainSubstring(`subnetSelectorTerms:\n  - id: subnet-1\n  - id: subnet-2\n`),
		ContainSubstring(`securityGroupSelectorTerms:\n  - id: sg-1\n`),
		ContainSubstring(`values:\n        - arm64\n`), ContainSubstring(`cpu: \"1000\"`),
	))

	delete(outputs, "karpenter_queue_name")
	r = rendered(t, addon, render.Options{Cluster: "demo", Outputs: outputs})
	g.Expect(r.Problems).To(ContainElement(HaveField("Message", ContainSubstring("refers to key karpenter_queue_name"))))
	g.Expect(rendered(t, given(t, "addons/fluxcd.yaml"), render.Options{Cluster: "demo"}).Notes).To(ContainElement(ContainSubstring("manifests crds")))
}

// Without permissions the controller would be Ready and create no load balancer.
func TestRender_loadBalancerControllerNeedsARole(t *testing.T) {
	g := NewWithT(t)
	addon := given(t, "addons/aws-load-balancer-controller.yaml")
	outputs := map[string][]byte{"cluster_name": []byte("demo"), "region": []byte("eu-central-1"), "vpc_id": []byte("vpc-1")}
	r := rendered(t, addon, render.Options{Cluster: "demo", Outputs: outputs})
	g.Expect(r.Problems).To(ContainElement(HaveField("Message", ContainSubstring("refers to key aws_load_balancer_controller_identity"))))

	const annotation = `serviceAccount.annotations.eks\\.amazonaws\\.com/role-arn`
	outputs["aws_load_balancer_controller_identity"] = []byte("PodIdentity")
	r = rendered(t, addon, render.Options{Cluster: "demo", Outputs: outputs})
	g.Expect(r.Problems).To(BeEmpty())
	g.Expect(asJSON(t, r)).To(And(ContainSubstring("targetPath: clusterName"), ContainSubstring("targetPath: region"), ContainSubstring("targetPath: vpcId"), Not(ContainSubstring(annotation))))

	outputs["aws_load_balancer_controller_identity"], outputs["aws_load_balancer_controller_role_arn"] = []byte("IRSA"), []byte("arn")
	r = rendered(t, addon, render.Options{Cluster: "demo", Outputs: outputs})
	g.Expect(r.Problems).To(BeEmpty())
	g.Expect(asJSON(t, r)).To(ContainSubstring(annotation))
}

func TestRender_storageClassIsTheDefault(t *testing.T) {
	g := NewWithT(t)
	r := rendered(t, given(t, "addons/ebs-storage-class.yaml"), render.Options{Cluster: "demo"})
	g.Expect(r.Problems).To(BeEmpty())
	g.Expect(asJSON(t, r)).To(And(ContainSubstring("is-default-class"), ContainSubstring("WaitForFirstConsumer"), ContainSubstring("provisioner: ebs.csi.aws.com")))
}

func TestOutputs_parsesAllFormats(t *testing.T) {
	want := map[string]string{"name": "demo", "zones": `["a","b"]`}
	tests := map[string]string{
		"a Secret":            "apiVersion: v1\nkind: Secret\ndata: {name: ZGVtbw==}\nstringData: {zones: '[\"a\",\"b\"]'}\n",
		"output of Terraform": `{"name": {"sensitive": false, "type": "string", "value": "demo"}, "zones": {"sensitive": true, "type": ["list", "string"], "value": ["a", "b"]}}`,
		"a plain map":         `{"name": "demo", "zones": ["a", "b"]}`,
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			outputs, err := render.Outputs([]byte(text))
			g.Expect(err).NotTo(HaveOccurred())
			found := map[string]string{}
			for name, value := range outputs {
				found[name] = string(value)
			}
			g.Expect(found).To(Equal(want))
		})
	}
	_, err := render.Outputs([]byte("[]"))
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("pass a connection Secret, or the output of terraform output -json")))
}
