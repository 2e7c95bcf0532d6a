package desired

import (
	"cmp"
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func newNetwork(spec infrav1.CAPTClusterSpec) *Network {
	spec.VPCTemplateRef = &infrav1.TemplateReference{Name: "vpc"}
	return &Network{
		Cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "production"}},
		Infra:   &infrav1.CAPTCluster{Spec: spec},
	}
}

func TestNetwork_setsVariablesFromFields(t *testing.T) {
	for name, c := range map[string]struct {
		spec     infrav1.CAPTClusterSpec
		declared []string
		want     string
	}{
		"no fields":             {declared: []string{"name"}, want: `{"name":"production-vpc"}`},
		"an empty config":       {spec: infrav1.CAPTClusterSpec{VPCConfig: &infrav1.VPCConfig{}}, declared: []string{"name", "cidr", "azs", "nat_gateway", "tags"}, want: `{"name":"production-vpc"}`},
		"offered":               {spec: infrav1.CAPTClusterSpec{Region: "eu-west-1"}, declared: []string{"cluster_name", "region"}, want: `{"cluster_name":"production","region":"eu-west-1"}`},
		"offered, not declared": {spec: infrav1.CAPTClusterSpec{Region: "eu-west-1"}, declared: []string{"name"}, want: `{"name":"production-vpc"}`},
		"every field": {
			spec: infrav1.CAPTClusterSpec{
				VPCConfig:      &infrav1.VPCConfig{Name: "main", CIDR: "10.0.0.0/16", AvailabilityZones: []string{"a", "b"}, NATGateway: "Single"},
				AdditionalTags: map[string]string{"team": "blue"},
			},
			declared: []string{"name", "cidr", "azs", "nat_gateway", "tags"},
			want:     `{"name":"main","cidr":"10.0.0.0/16","azs":["a","b"],"nat_gateway":"Single","tags":{"team":"blue"}}`,
		},
		"variables take precedence": {
			spec: infrav1.CAPTClusterSpec{
				VPCConfig: &infrav1.VPCConfig{CIDR: "10.0.0.0/16"}, Variables: map[string]infrav1.Value{"cidr": infrav1.StringValue("10.1.0.0/16")},
			},
			declared: []string{"cidr"}, want: `{"cidr":"10.1.0.0/16"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := newNetwork(c.spec).Workspace(inspectedTemplate(c.declared...))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(json.Marshal(got.Spec.Variables)).To(MatchJSON(c.want))
		})
	}
}

func TestNetwork_stallsOnFieldsThatTheTemplateDoesNotTake(t *testing.T) {
	for field, spec := range map[string]infrav1.CAPTClusterSpec{
		"spec.vpcConfig.name (variable name)":              {VPCConfig: &infrav1.VPCConfig{Name: "main"}},
		"spec.vpcConfig.cidr (variable cidr)":              {VPCConfig: &infrav1.VPCConfig{CIDR: "10.0.0.0/16"}},
		"spec.vpcConfig.availabilityZones (variable azs)":  {VPCConfig: &infrav1.VPCConfig{AvailabilityZones: []string{"a"}}},
		"spec.vpcConfig.natGateway (variable nat_gateway)": {VPCConfig: &infrav1.VPCConfig{NATGateway: "Single"}},
		"spec.additionalTags (variable tags)":              {AdditionalTags: map[string]string{"a": "b"}},
	} {
		t.Run(field, func(t *testing.T) {
			g := NewWithT(t)
			_, err := newNetwork(spec).Workspace(inspectedTemplate())
			stalled, ok := fault.AsStalled(err)
			g.Expect(ok).To(BeTrue(), "%v", err)
			g.Expect(stalled.Reason).To(Equal(infrav1.FieldNotTakenReason))
			g.Expect(stalled.Message()).To(ContainSubstring(field))
		})
	}
}

func TestNetwork_keepsTheZonesOfAnExistingVPC(t *testing.T) {
	existing := func(outputs string) *infrav1.WorkspaceTemplateApply {
		apply := &infrav1.WorkspaceTemplateApply{}
		NewWithT(t).Expect(json.Unmarshal([]byte(outputs), &apply.Status.Outputs)).To(Succeed())
		return apply
	}
	moved := existing(`{}`)
	moved.Spec.Variables = map[string]infrav1.Value{"azs": {Raw: []byte(`["c","a"]`)}}
	for name, c := range map[string]struct {
		spec     infrav1.CAPTClusterSpec
		existing *infrav1.WorkspaceTemplateApply
		absent   bool
		fixed    string
		want     string
	}{
		"a template with zones":          {existing: existing(`{"azs":["c","a"]}`), fixed: `["c","a"]`, want: `{}`},
		"a VPC that is not reported yet": {existing: existing(`{"vpc_id":"vpc-1","azs":["c","a"]}`), absent: true, want: `{}`},
		"a workspace that was moved":     {existing: moved, absent: true, want: `{"azs":["c","a"]}`},
		"a new VPC":                      {want: `{}`},
		"a VPC being created":            {existing: existing(`{}`), want: `{}`},
		"an existing VPC":                {existing: existing(`{"vpc_id":"vpc-1","azs":["c","a"]}`), want: `{"azs":["c","a"]}`},
		"a template without it":          {existing: existing(`{"vpc_id":"vpc-1"}`), want: `{}`},
		"zones that the user set": {
			spec:     infrav1.CAPTClusterSpec{VPCConfig: &infrav1.VPCConfig{AvailabilityZones: []string{"a", "b"}}},
			existing: existing(`{"azs":["c","a"]}`), want: `{"azs":["a","b"]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			network := newNetwork(c.spec)
			network.Existing = c.existing
			network.Infra.Status.VPCID = "vpc-1"
			if !c.absent {
				network.Infra.Status.Conditions = []metav1.Condition{{Type: infrav1.FailureDomainsKnownCondition, Status: metav1.ConditionTrue}}
			}
			template := inspectedTemplate("azs")
			template.Status.Variables[0].Default = cmp.Or(c.fixed, "null")
			got, err := network.Workspace(template)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(json.Marshal(got.Spec.Variables)).To(MatchJSON(c.want))
		})
	}
}

func TestNetwork_workspace(t *testing.T) {
	g := NewWithT(t)
	got, err := newNetwork(infrav1.CAPTClusterSpec{RetainVPCOnDelete: true}).Workspace(inspectedTemplate("name"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Name).To(Equal("production-vpc"))
	g.Expect(got.Cluster).To(Equal("production"))
	g.Expect(got.Connection("x")).To(Equal("x-connection"))
	g.Expect(got.Spec.TemplateRef.Name).To(Equal("vpc"))
	g.Expect(got.Spec.RequiredOutputs).To(Equal([]string{"vpc_id"}))
	g.Expect(got.Spec.RetainWorkspaceOnDelete).To(BeTrue())

	_, err = newNetwork(infrav1.CAPTClusterSpec{}).Workspace(&infrav1.WorkspaceTemplate{})
	_, waits := fault.AsWaiting(err)
	g.Expect(waits).To(BeTrue(), "the template is not inspected yet: %v", err)
}

func TestNetwork_ofOtherInfrastructure(t *testing.T) {
	g := NewWithT(t)
	network := newNetwork(infrav1.CAPTClusterSpec{})
	network.Infra.Spec.VPCTemplateRef, network.Infra.Spec.WorkspaceTemplateRef = nil, &infrav1.TemplateReference{Name: "balancer"}
	got, err := network.Workspace(inspectedTemplate("name", "cluster_name", "region"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Name).To(Equal("production-infrastructure"))
	g.Expect(got.Spec.TemplateRef.Name).To(Equal("balancer"))
	g.Expect(got.Spec.RequiredOutputs).To(BeEmpty())
	g.Expect(json.Marshal(got.Spec.Variables)).To(MatchJSON(`{"name":"production-infrastructure","cluster_name":"production"}`), "a region is not made up")
}

func TestNetworkExists_withoutVPC(t *testing.T) {
	g := NewWithT(t)
	infra := &infrav1.CAPTCluster{}
	g.Expect(NetworkExists(infra)).To(BeFalse())
	infra.Status.Conditions = []metav1.Condition{{Type: infrav1.FailureDomainsKnownCondition, Status: metav1.ConditionTrue}}
	g.Expect(NetworkExists(infra)).To(BeTrue())
	infra.Spec.VPCTemplateRef = &infrav1.TemplateReference{Name: "vpc"}
	g.Expect(NetworkExists(infra)).To(BeFalse(), "a VPC has an ID")
}
