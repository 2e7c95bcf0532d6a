package desired

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

var minor33 = kubeversion.Minor{Major: 1, Minor: 33}

func newControlPlane(spec controlplanev1.CAPTControlPlaneSpec) *ControlPlane {
	spec.WorkspaceTemplateRef = infrav1.TemplateReference{Name: "eks"}
	return &ControlPlane{
		Cluster:      &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "production"}},
		ControlPlane: &controlplanev1.CAPTControlPlane{Spec: spec},
	}
}

func newInfra() *infrav1.CAPTCluster {
	infra := &infrav1.CAPTCluster{}
	infra.Spec.Region = "eu-west-1"
	infra.Status.VPCID, infra.Status.SubnetIDs = "vpc-1", []string{"a", "b"}
	return infra
}

func TestControlPlane_keepsItsSubnets(t *testing.T) {
	for name, c := range map[string]struct {
		before, current string
		want            string
	}{
		"unchanged":                {`{"subnet_ids":["a","b"]}`, `["b","a"]`, ""},
		"a further zone":           {`{"subnet_ids":["a","b"]}`, `["a","b","c"]`, `["a","b"]`},
		"one more":                 {`{"subnet_ids":["a","b","c"],"control_plane_subnet_ids":["a","b"]}`, `["a","b","c","d"]`, `["a","b"]`},
		"a replaced subnet":        {`{"subnet_ids":["a","b"]}`, `["a","c"]`, ""},
		"one of three is replaced": {`{"subnet_ids":["a","b","c"]}`, `["a","b","d"]`, `["a","b"]`},
		"after a replacement":      {`{"subnet_ids":["a","b","c","d"],"control_plane_subnet_ids":["a","b","c"]}`, `["a","b","d","e"]`, `["a","b"]`},
		"a replaced one of before": {`{"subnet_ids":["a","b","c"],"control_plane_subnet_ids":["a","b"]}`, `["a","c"]`, ""},
		"without subnets":          {`{}`, `["a","b"]`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			plane := newControlPlane(controlplanev1.CAPTControlPlaneSpec{})
			plane.Infra, plane.Existing = newInfra(), &infrav1.WorkspaceTemplateApply{}
			g.Expect(json.Unmarshal([]byte(c.before), &plane.Existing.Spec.Variables)).To(Succeed())
			g.Expect(json.Unmarshal([]byte(c.current), &plane.Infra.Status.SubnetIDs)).To(Succeed())
			got, err := plane.Workspace(inspectedTemplate("subnet_ids", "control_plane_subnet_ids", "compute_subnet_ids", "kubernetes_version"), minor33)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Spec.Variables["subnet_ids"].String()).To(Equal(c.current), "nodes use all")
			g.Expect(got.Spec.Variables["control_plane_subnet_ids"].String()).To(Equal(c.want))
			if !strings.Contains(c.before, "control_plane") {
				g.Expect(got.Spec.Variables["compute_subnet_ids"].String()).To(Equal(c.want), "Fargate profiles and the node group are not replaced")
			}
		})
	}
}

// A user who sets the subnets decides about those of the compute too.
func TestControlPlane_doesNotKeepSubnetsThatTheUserChanges(t *testing.T) {
	g := NewWithT(t)
	plane := newControlPlane(controlplanev1.CAPTControlPlaneSpec{Variables: map[string]infrav1.Value{"subnet_ids": {Raw: []byte(`["b","c"]`)}}})
	plane.Infra, plane.Existing = newInfra(), &infrav1.WorkspaceTemplateApply{}
	plane.Infra.Status.SubnetIDs = []string{"a", "b", "c"}
	plane.Existing.Spec.Variables = map[string]infrav1.Value{"subnet_ids": {Raw: []byte(`["a","b"]`)}}
	got, err := plane.Workspace(inspectedTemplate("subnet_ids", "control_plane_subnet_ids", "compute_subnet_ids", "kubernetes_version"), minor33)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Spec.Variables["subnet_ids"].String()).To(Equal(`["b","c"]`))
	g.Expect(got.Spec.Variables).NotTo(HaveKey("compute_subnet_ids"))
	g.Expect(got.Spec.Variables).NotTo(HaveKey("control_plane_subnet_ids"))
}

// CoreDNS of a control plane without nodes waits for the first one, which waits for the
// outputs of the control plane.
func TestControlPlane_waitsForNodes(t *testing.T) {
	applied := func(variables string) *infrav1.WorkspaceTemplateApply {
		apply := &infrav1.WorkspaceTemplateApply{}
		apply.Status.Outputs = map[string]infrav1.Value{"cluster_name": infrav1.StringValue("demo")}
		NewWithT(t).Expect(json.Unmarshal([]byte(variables), &apply.Spec.Variables)).To(Succeed())
		return apply
	}
	none := map[string]infrav1.Value{"compute": infrav1.StringValue("None")}
	for name, c := range map[string]struct {
		variables map[string]infrav1.Value
		existing  *infrav1.WorkspaceTemplateApply
		hasNodes  bool
		endpoint  string
		want      string
		waits     bool
	}{
		"own compute":              {},
		"new":                      {variables: none, want: "false"},
		"created":                  {variables: none, existing: applied(`{"nodes_ready":false}`), want: "false", waits: true},
		"the first node":           {variables: none, existing: applied(`{"nodes_ready":false}`), hasNodes: true, want: "true", waits: true},
		"the last node is gone":    {variables: none, existing: applied(`{"nodes_ready":true}`), want: "true"},
		"had nodes of its own":     {variables: none, existing: applied(`{}`), want: "true"},
		"never applied":            {variables: none, existing: &infrav1.WorkspaceTemplateApply{}, want: "false"},
		"moved":                    {variables: none, existing: &infrav1.WorkspaceTemplateApply{}, endpoint: "api.example.com", want: "true"},
		"moved before a node":      {variables: none, existing: applied(`{"nodes_ready":false}`), endpoint: "api.example.com", want: "false", waits: true},
		"set by the user":          {variables: map[string]infrav1.Value{"compute": infrav1.StringValue("None"), "nodes_ready": {Raw: []byte("true")}}, want: "true"},
		"set to false by the user": {variables: map[string]infrav1.Value{"compute": infrav1.StringValue("None"), "nodes_ready": {Raw: []byte("false")}}, existing: applied(`{"nodes_ready":false}`), hasNodes: true, want: "false"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			plane := newControlPlane(controlplanev1.CAPTControlPlaneSpec{Variables: c.variables})
			plane.Existing, plane.HasNodes = c.existing, c.hasNodes
			if c.endpoint != "" {
				plane.ControlPlane.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: c.endpoint, Port: 443}
			}
			g.Expect(plane.WaitsForNodes()).To(Equal(c.waits))
			got, err := plane.Workspace(inspectedTemplate("compute", "nodes_ready", "kubernetes_version"), minor33)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Spec.Variables["nodes_ready"].String()).To(Equal(c.want))
		})
	}
}

func TestControlPlane_setsVariablesFromFields(t *testing.T) {
	config := func(c controlplanev1.ControlPlaneConfig) controlplanev1.CAPTControlPlaneSpec {
		return controlplanev1.CAPTControlPlaneSpec{ControlPlaneConfig: &c}
	}
	for name, c := range map[string]struct {
		spec     controlplanev1.CAPTControlPlaneSpec
		infra    *infrav1.CAPTCluster
		declared []string
		want     string
	}{
		"no fields":              {declared: []string{"cluster_name"}, want: `{"cluster_name":"production","kubernetes_version":"1.33"}`},
		"infrastructure of CAPT": {infra: newInfra(), declared: []string{"vpc_id", "subnet_ids", "region"}, want: `{"vpc_id":"vpc-1","subnet_ids":["a","b"],"region":"eu-west-1","kubernetes_version":"1.33"}`},
		"a region":               {spec: config(controlplanev1.ControlPlaneConfig{Region: "us-east-1"}), infra: newInfra(), declared: []string{"region"}, want: `{"region":"us-east-1","kubernetes_version":"1.33"}`},
		"an empty config": {
			spec:     config(controlplanev1.ControlPlaneConfig{EndpointAccess: &controlplanev1.EndpointAccess{}}),
			declared: []string{"cluster_addons", "endpoint_public_access", "tags"}, want: `{"kubernetes_version":"1.33"}`,
		},
		"endpoint access": {
			spec: config(controlplanev1.ControlPlaneConfig{EndpointAccess: &controlplanev1.EndpointAccess{
				Public: new(false), Private: new(true), PublicCIDRs: []infrav1.CIDR{"10.0.0.0/8"},
			}}),
			declared: []string{"endpoint_public_access", "endpoint_private_access", "endpoint_public_access_cidrs"},
			want:     `{"endpoint_public_access":false,"endpoint_private_access":true,"endpoint_public_access_cidrs":["10.0.0.0/8"],"kubernetes_version":"1.33"}`,
		},
		"add-ons": {
			spec: config(controlplanev1.ControlPlaneConfig{Addons: []controlplanev1.ClusterAddon{
				{Name: "coredns"}, {Name: "vpc-cni", Version: "v1", ConfigurationValues: "{}"},
			}}),
			declared: []string{"cluster_addons"},
			want:     `{"cluster_addons":{"coredns":{},"vpc-cni":{"version":"v1","configuration_values":"{}"}},"kubernetes_version":"1.33"}`,
		},
		"roles of add-ons": {
			spec: config(controlplanev1.ControlPlaneConfig{Addons: []controlplanev1.ClusterAddon{
				{Name: "vpc-cni", RoleARN: "arn:aws:iam::123456789012:role/cni"},
				{Name: "external-dns", PodIdentities: []controlplanev1.PodIdentity{{ServiceAccount: "external-dns", RoleARN: "arn:aws:iam::123456789012:role/dns"}}},
			}}),
			declared: []string{"cluster_addons"},
			want: `{"cluster_addons":{"vpc-cni":{"service_account_role_arn":"arn:aws:iam::123456789012:role/cni"},
				"external-dns":{"pod_identity_associations":[{"service_account":"external-dns","role_arn":"arn:aws:iam::123456789012:role/dns"}]}},"kubernetes_version":"1.33"}`,
		},
		"roles that the template creates": {
			spec: config(controlplanev1.ControlPlaneConfig{AddonRoles: []controlplanev1.AddonRole{
				{Name: controlplanev1.AddonRoleEBSCSIDriver},
				{Name: controlplanev1.AddonRoleAWSLoadBalancerController},
				{Name: controlplanev1.AddonRoleExternalDNS, HostedZones: []controlplanev1.HostedZone{"Z1"}},
				{Name: controlplanev1.AddonRoleCertManager, HostedZones: []controlplanev1.HostedZone{"Z1", "Z2"}},
			}}),
			declared: []string{
				"ebs_csi_driver", "aws_load_balancer_controller_role", "external_dns_role", "external_dns_hosted_zones",
				"cert_manager_role", "cert_manager_hosted_zones",
			},
			want: `{"ebs_csi_driver":true,"aws_load_balancer_controller_role":true,"external_dns_role":true,"external_dns_hosted_zones":["Z1"],
				"cert_manager_role":true,"cert_manager_hosted_zones":["Z1","Z2"],"kubernetes_version":"1.33"}`,
		},
		"access": {
			spec: config(controlplanev1.ControlPlaneConfig{Access: &controlplanev1.ControlPlaneAccess{
				AuthenticationMode: controlplanev1.AuthenticationModeAPIAndConfigMap, CreatorAdmin: controlplanev1.CreatorAdminEntry,
				Entries: []controlplanev1.AccessEntry{
					{
						Name: "admins", PrincipalARN: "arn:aws:iam::123456789012:role/admin",
						Policies: []controlplanev1.AccessPolicy{{Name: "AmazonEKSClusterAdminPolicy"}, {Name: "AmazonEKSViewPolicy", Namespaces: []string{"shop"}}},
					},
					{Name: "auditors", PrincipalARN: "arn:aws:iam::123456789012:user/audit", KubernetesGroups: []string{"auditors"}},
				},
			}}),
			declared: []string{"authentication_mode", "cluster_creator_admin", "cluster_creator_entry", "access_entries"},
			want: `{"authentication_mode":"API_AND_CONFIG_MAP","cluster_creator_admin":false,"cluster_creator_entry":true,"access_entries":{
				"admins":{"principal_arn":"arn:aws:iam::123456789012:role/admin","policy_associations":{
					"AmazonEKSClusterAdminPolicy":{"policy_name":"AmazonEKSClusterAdminPolicy"},
					"AmazonEKSViewPolicy":{"policy_name":"AmazonEKSViewPolicy","access_scope":{"type":"namespace","namespaces":["shop"]}}}},
				"auditors":{"principal_arn":"arn:aws:iam::123456789012:user/audit","kubernetes_groups":["auditors"]}},"kubernetes_version":"1.33"}`,
		},
		"a creator that the cloud admits": {
			spec:     config(controlplanev1.ControlPlaneConfig{Access: &controlplanev1.ControlPlaneAccess{CreatorAdmin: controlplanev1.CreatorAdminBootstrap}}),
			declared: []string{"cluster_creator_admin"}, want: `{"cluster_creator_admin":true,"kubernetes_version":"1.33"}`,
		},
		"a creator without access": {
			spec:     config(controlplanev1.ControlPlaneConfig{Access: &controlplanev1.ControlPlaneAccess{CreatorAdmin: controlplanev1.CreatorAdminNone}}),
			declared: []string{"cluster_creator_admin", "cluster_creator_entry"}, want: `{"cluster_creator_admin":false,"kubernetes_version":"1.33"}`,
		},
		"tags": {
			spec:     controlplanev1.CAPTControlPlaneSpec{AdditionalTags: map[string]string{"team": "blue"}},
			declared: []string{"tags"}, want: `{"tags":{"team":"blue"},"kubernetes_version":"1.33"}`,
		},
		"variables take precedence": {
			spec:     controlplanev1.CAPTControlPlaneSpec{Variables: map[string]infrav1.Value{"cluster_name": infrav1.StringValue("other")}},
			declared: []string{"cluster_name"}, want: `{"cluster_name":"other","kubernetes_version":"1.33"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := newControlPlane(c.spec)
			d.Infra = c.infra
			got, err := d.Workspace(inspectedTemplate(append(c.declared, "kubernetes_version")...), minor33)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(json.Marshal(got.Spec.Variables)).To(MatchJSON(c.want))
		})
	}
}

func TestControlPlane_stalls(t *testing.T) {
	config := func(c controlplanev1.ControlPlaneConfig) controlplanev1.CAPTControlPlaneSpec {
		return controlplanev1.CAPTControlPlaneSpec{ControlPlaneConfig: &c}
	}
	access := func(a controlplanev1.EndpointAccess) controlplanev1.CAPTControlPlaneSpec {
		return config(controlplanev1.ControlPlaneConfig{EndpointAccess: &a})
	}
	for want, spec := range map[string]controlplanev1.CAPTControlPlaneSpec{
		"spec.version (variable kubernetes_version)":                                                 {},
		"spec.variables.kubernetes_version must not be set":                                          {Variables: map[string]infrav1.Value{"kubernetes_version": infrav1.StringValue("1.30")}},
		"spec.additionalTags (variable tags)":                                                        {AdditionalTags: map[string]string{"a": "b"}},
		"spec.controlPlaneConfig.endpointAccess.public (variable endpoint_public_access)":            access(controlplanev1.EndpointAccess{Public: new(true)}),
		"spec.controlPlaneConfig.endpointAccess.private (variable endpoint_private_access)":          access(controlplanev1.EndpointAccess{Private: new(true)}),
		"spec.controlPlaneConfig.endpointAccess.publicCIDRs (variable endpoint_public_access_cidrs)": access(controlplanev1.EndpointAccess{PublicCIDRs: []infrav1.CIDR{"a"}}),
		"spec.controlPlaneConfig.addons (variable cluster_addons)":                                   config(controlplanev1.ControlPlaneConfig{Addons: []controlplanev1.ClusterAddon{{Name: "a"}}}),
		"spec.controlPlaneConfig.addonRoles[EBSCSIDriver] (variable ebs_csi_driver)":                 config(controlplanev1.ControlPlaneConfig{AddonRoles: []controlplanev1.AddonRole{{Name: controlplanev1.AddonRoleEBSCSIDriver}}}),
		"spec.controlPlaneConfig.access.creatorAdmin (variable cluster_creator_admin)":               config(controlplanev1.ControlPlaneConfig{Access: &controlplanev1.ControlPlaneAccess{CreatorAdmin: controlplanev1.CreatorAdminNone}}),
		"spec.controlPlaneConfig.access.authenticationMode (variable authentication_mode)":           config(controlplanev1.ControlPlaneConfig{Access: &controlplanev1.ControlPlaneAccess{AuthenticationMode: controlplanev1.AuthenticationModeAPI}}),
	} {
		t.Run(want, func(t *testing.T) {
			g := NewWithT(t)
			_, err := newControlPlane(spec).Workspace(inspectedTemplate(), minor33)
			stalled, ok := fault.AsStalled(err)
			g.Expect(ok).To(BeTrue(), "%v", err)
			g.Expect(stalled.Message()).To(ContainSubstring(want))
		})
	}
	_, err := newControlPlane(controlplanev1.CAPTControlPlaneSpec{}).Workspace(&infrav1.WorkspaceTemplate{}, minor33)
	_, waits := fault.AsWaiting(err)
	NewWithT(t).Expect(waits).To(BeTrue(), "the template is not inspected yet: %v", err)
}

// A module such as modules/eks has no default for the networks and refuses a
// public endpoint without them. That is reported before a run.
func TestControlPlane_requiresTheNetworksOfAPublicEndpoint(t *testing.T) {
	type template = infrav1.WorkspaceTemplate
	set := func(name, value string) func(*template) {
		return func(t *template) {
			forProvider := &t.Spec.Template.Spec.ForProvider
			forProvider.Vars = append(forProvider.Vars, infrav1.Variable{Key: infrav1.VariableName(name), Value: infrav1.Value{Raw: []byte(value)}})
		}
	}
	byDefault := func(name, value string) func(*template) {
		return func(t *template) {
			for i := range t.Status.Variables {
				if t.Status.Variables[i].Name == name {
					t.Status.Variables[i].Default = value
				}
			}
		}
	}
	const public, cidrs = "endpoint_public_access", "endpoint_public_access_cidrs"
	for name, c := range map[string]struct {
		access    controlplanev1.EndpointAccess
		variables map[string]infrav1.Value
		change    func(*template)
		stalls    bool
	}{
		"public":                      {access: controlplanev1.EndpointAccess{Public: new(true)}, stalls: true},
		"public, an empty list":       {access: controlplanev1.EndpointAccess{Public: new(true), PublicCIDRs: []infrav1.CIDR{}}, stalls: true},
		"public with networks":        {access: controlplanev1.EndpointAccess{Public: new(true), PublicCIDRs: []infrav1.CIDR{"192.0.2.0/24"}}},
		"private":                     {access: controlplanev1.EndpointAccess{Public: new(false)}},
		"private, an empty list":      {access: controlplanev1.EndpointAccess{Public: new(false), PublicCIDRs: []infrav1.CIDR{}}},
		"private by default":          {},
		"public by default":           {change: byDefault(public, "true"), stalls: true},
		"public by the template":      {change: set(public, "true"), stalls: true},
		"public by a placeholder":     {change: set(public, `"${PUBLIC}"`)},
		"networks of the template":    {access: controlplanev1.EndpointAccess{Public: new(true)}, change: set(cidrs, `["192.0.2.0/24"]`)},
		"networks by default":         {access: controlplanev1.EndpointAccess{Public: new(true)}, change: byDefault(cidrs, `["0.0.0.0/0"]`)},
		"a default that is not known": {access: controlplanev1.EndpointAccess{Public: new(true)}, change: byDefault(cidrs, "")},
		"public by a variable":        {variables: map[string]infrav1.Value{public: {Raw: []byte("true")}}, stalls: true},
		"networks by a variable": {
			access:    controlplanev1.EndpointAccess{Public: new(true)},
			variables: map[string]infrav1.Value{cidrs: {Raw: []byte(`["192.0.2.0/24"]`)}},
		},
		"a file of variables": {
			access: controlplanev1.EndpointAccess{Public: new(true)},
			change: func(t *template) { t.Spec.Template.Spec.ForProvider.VarFiles = make([]infrav1.VarFile, 1) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			eks := inspectedTemplate(versionVariable, public, cidrs)
			byDefault(public, "false")(eks)
			byDefault(cidrs, "null")(eks)
			if c.change != nil {
				c.change(eks)
			}
			_, err := newControlPlane(controlplanev1.CAPTControlPlaneSpec{
				ControlPlaneConfig: &controlplanev1.ControlPlaneConfig{EndpointAccess: &c.access}, Variables: c.variables,
			}).Workspace(eks, minor33)
			if !c.stalls {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			stalled, ok := fault.AsStalled(err)
			g.Expect(ok).To(BeTrue(), "%v", err)
			g.Expect(stalled.Message()).To(ContainSubstring("endpointAccess.publicCIDRs is required with a public endpoint"))
		})
	}
}

func TestControlPlane_workspace(t *testing.T) {
	template := inspectedTemplate("kubernetes_version")
	spec := controlplanev1.CAPTControlPlaneSpec{}
	minimal, err := newControlPlane(spec).Workspace(template, minor33)
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(minimal.Name).To(Equal("production"))
	g.Expect(minimal.Cluster).To(Equal("production"))
	g.Expect(minimal.Connection("x")).To(Equal("x-eks-connection"))
	g.Expect(minimal.Spec.TemplateRef.Name).To(Equal("eks"))
	g.Expect(minimal.Spec.RequiredOutputs).To(Equal([]string{"cluster_endpoint", "cluster_certificate_authority_data"}))
	g.Expect(minimal.Spec.WaitForWorkspaces).To(BeEmpty())
	g.Expect(minimal.Spec.Timeout).To(BeNil())

	spec.Kubeconfig = &controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceOutput}
	spec.ControlPlaneConfig = &controlplanev1.ControlPlaneConfig{Timeouts: &controlplanev1.ControlPlaneTimeouts{Create: &metav1.Duration{Duration: time.Hour}}}
	full := newControlPlane(spec)
	full.Infra = newInfra()
	full.Infra.Status.WorkspaceRef = &infrav1.LocalReference{Name: "production-vpc"}
	got, err := full.Workspace(template, minor33)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Spec.RequiredOutputs).To(Equal([]string{"cluster_endpoint", "kubeconfig"}))
	g.Expect(got.Spec.WaitForWorkspaces).To(Equal([]infrav1.ObjectReference{{Name: "production-vpc"}}))
	g.Expect(got.Spec.Timeout).To(HaveField("Duration", time.Hour))

	full.Infra.Status.WorkspaceRef = nil
	full.ControlPlane.Spec.Kubeconfig.OutputName = "admin"
	full.ControlPlane.Spec.ControlPlaneConfig.Timeouts = nil
	got, err = full.Workspace(template, minor33)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Spec.RequiredOutputs).To(Equal([]string{"cluster_endpoint", "admin"}))
	g.Expect(got.Spec.WaitForWorkspaces).To(BeEmpty(), "the VPC existed before")
	g.Expect(got.Spec.Timeout).To(BeNil())
}

func TestControlPlane_region(t *testing.T) {
	g := NewWithT(t)
	d := newControlPlane(controlplanev1.CAPTControlPlaneSpec{ControlPlaneConfig: &controlplanev1.ControlPlaneConfig{}})
	g.Expect(d.Region()).To(BeEmpty())
	d.Infra = newInfra()
	g.Expect(d.Region()).To(Equal("eu-west-1"))
	d.ControlPlane.Spec.ControlPlaneConfig.Region = "us-east-1"
	g.Expect(d.Region()).To(Equal("us-east-1"))
	d.ControlPlane.Spec.Variables = map[string]infrav1.Value{"region": infrav1.StringValue("us-west-2")}
	g.Expect(d.Region()).To(Equal("us-west-2"), "a variable overrides fields")
	d.ControlPlane.Spec.Variables = map[string]infrav1.Value{"region": {Raw: []byte("null")}}
	g.Expect(d.Region()).To(Equal("us-east-1"))
}

func TestControlPlane_version(t *testing.T) {
	for name, c := range map[string]struct {
		spec, requested, served string
		ready                   metav1.ConditionStatus
		next, reason            string
		upgrades                bool
	}{
		"a new control plane":            {spec: "v1.33.0", next: "1.33"},
		"an invalid version":             {spec: "latest", reason: infrav1.InvalidVariableReason},
		"unchanged":                      {spec: "v1.33.0", requested: "1.33", served: "v1.33.2", ready: metav1.ConditionTrue, next: "1.33"},
		"an upgrade":                     {spec: "v1.34.0", requested: "1.33", served: "v1.33.2", ready: metav1.ConditionTrue, next: "1.34", upgrades: true},
		"an upgrade by two":              {spec: "v1.35.0", requested: "1.33", served: "v1.33.2", ready: metav1.ConditionTrue, next: "1.34", upgrades: true},
		"while the workspace is applied": {spec: "v1.35.0", requested: "1.34", served: "v1.34.0", ready: metav1.ConditionFalse, next: "1.34"},
		"while the API server is older":  {spec: "v1.35.0", requested: "1.34", served: "v1.33.2", ready: metav1.ConditionTrue, next: "1.34"},
		"while the version is not known": {spec: "v1.35.0", requested: "1.34", ready: metav1.ConditionTrue, next: "1.34"},
		"a downgrade":                    {spec: "v1.32.0", requested: "1.33", served: "v1.32.2", ready: metav1.ConditionTrue, reason: controlplanev1.DowngradeRefusedReason},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := newControlPlane(controlplanev1.CAPTControlPlaneSpec{Version: c.spec})
			d.ControlPlane.Status.Version = c.served
			if c.requested != "" {
				d.Existing = &infrav1.WorkspaceTemplateApply{}
				d.Existing.Spec.Variables = map[string]infrav1.Value{"kubernetes_version": infrav1.StringValue(c.requested)}
				conditions.Set(d.Existing, metav1.Condition{Type: clusterv1.ReadyCondition, Status: c.ready, Reason: "R"})
			}
			version, err := d.Version()
			if c.reason != "" {
				stalled, ok := fault.AsStalled(err)
				g.Expect(ok).To(BeTrue(), "%v", err)
				g.Expect(stalled.Reason).To(Equal(c.reason))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(version.Next.String()).To(Equal(c.next))
			g.Expect(version.Upgrades()).To(Equal(c.upgrades))
			if c.requested != "" {
				g.Expect(version.Hold().Next.String()).To(Equal(c.requested))
			} else {
				g.Expect(version.Hold()).To(Equal(version))
			}
		})
	}
}

func TestControlPlane_versionOfWorkspacesThatUsersChanged(t *testing.T) {
	g := NewWithT(t)
	d := newControlPlane(controlplanev1.CAPTControlPlaneSpec{Version: "v1.33.0"})
	d.Existing = &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Name: "production"}}
	version, err := d.Version()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(version.Next).To(Equal(minor33), "without the variable there is nothing to upgrade from")

	d.Existing.Spec.Variables = map[string]infrav1.Value{"kubernetes_version": infrav1.StringValue("latest")}
	_, err = d.Version()
	g.Expect(err).To(MatchError(ContainSubstring("reading variable kubernetes_version of workspace production")))
}

// A control plane needs neither a VPC nor a region, and takes what the infrastructure
// reports.
func TestControlPlane_onOtherInfrastructure(t *testing.T) {
	g := NewWithT(t)
	plane := newControlPlane(controlplanev1.CAPTControlPlaneSpec{Version: "v1.33.0"})
	plane.Infra = &infrav1.CAPTCluster{}
	plane.InfraOutputs = map[string]infrav1.Value{"network_id": {Raw: []byte(`42`)}, "not_declared": {Raw: []byte(`1`)}}
	got, err := plane.Workspace(inspectedTemplate("region", "vpc_id", "subnet_ids", "network_id", "kubernetes_version"), minor33)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(json.Marshal(got.Spec.Variables)).To(MatchJSON(`{"network_id":42,"kubernetes_version":"1.33"}`))
}
