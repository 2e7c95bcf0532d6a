package policy_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/policy"
	"github.com/appthrust/capt/internal/terraform/template"
)

const builtin = "../../../policies"

// awsPlan returns a plan with one change of a resource of AWS.
func awsPlan(kind, actions, change string) string {
	return `{"resource_changes":[{"address":"` + kind + `.x","mode":"managed","type":"` + kind + `","name":"x","provider_name":"registry.opentofu.org/hashicorp/aws","change":{"actions":[` + actions + `],` + change + `}}]}`
}

const (
	creates  = `"create"`
	updates  = `"update"`
	replaces = `"delete","create"`
	deletes  = `"delete"`
)

// endpoint returns the change of a cluster with a public endpoint for networks.
func endpoint(public, networks, unknown string) string {
	return `"before":null,"after":{"vpc_config":[{"endpoint_public_access":` + public + networks + `}]},"after_unknown":{"vpc_config":[{` + unknown + `}]}`
}

var builtinTests = map[string][]struct {
	plan    string
	destroy bool
	// want are the names of the violated rules.
	want []string
}{
	"approve-destructive.yaml": {
		{plan: awsPlan("aws_s3_bucket", deletes, `"before":{},"after":null`), want: []string{"destroys"}},
		{plan: awsPlan("aws_s3_bucket", replaces, `"before":{},"after":{}`), want: []string{"destroys"}},
		{plan: awsPlan("aws_iam_role", updates, `"before":{"a":1},"after":{"a":2}`), want: []string{"iam"}},
		{plan: awsPlan("aws_s3_bucket", updates, `"before":{"a":1},"after":{"a":2}`)},
		{plan: awsPlan("aws_s3_bucket", deletes, `"before":{},"after":null`), destroy: true},
	},
	"hold.yaml": {
		{plan: awsPlan("aws_s3_bucket", creates, `"before":null,"after":{}`), want: []string{"every-plan"}},
		{plan: awsPlan("aws_s3_bucket", deletes, `"before":{},"after":null`), destroy: true, want: []string{"every-plan"}},
	},
	"keep-clusters.yaml": {
		{plan: awsPlan("aws_eks_cluster", replaces, `"before":{"name":"a"},"after":{"name":"b"},"replace_paths":[["name"]]`), want: []string{"keep-clusters"}},
		{plan: awsPlan("aws_vpc", deletes, `"before":{},"after":null`), want: []string{"keep-clusters"}},
		{plan: awsPlan("aws_vpc", updates, `"before":{"a":1},"after":{"a":2}`)},
		{plan: awsPlan("aws_subnet", replaces, `"before":{"a":1},"after":{"a":2}`)},
		{plan: awsPlan("aws_vpc", deletes, `"before":{},"after":null`), destroy: true},
	},
	"private-endpoints.yaml": {
		{plan: awsPlan("aws_eks_cluster", creates, endpoint("true", `,"public_access_cidrs":["203.0.113.0/24"]`, ""))},
		{plan: awsPlan("aws_eks_cluster", creates, endpoint("true", `,"public_access_cidrs":["0.0.0.0/1","128.0.0.0/1"]`, "")), want: []string{"public-endpoint"}},
		{plan: awsPlan("aws_eks_cluster", creates, endpoint("false", "", `"public_access_cidrs":true`))},
		{plan: awsPlan("aws_eks_cluster", creates, endpoint("true", "", `"public_access_cidrs":true`)), want: []string{"public-endpoint"}},
		{plan: awsPlan("aws_eks_cluster", creates, endpoint("true", `,"public_access_cidrs":null`, "")), want: []string{"public-endpoint"}},
		{plan: awsPlan("aws_eks_cluster", creates, endpoint("true", `,"public_access_cidrs":[]`, "")), want: []string{"public-endpoint"}},
		{plan: awsPlan("aws_eks_cluster", creates, endpoint("null", `,"public_access_cidrs":["0.0.0.0/0"]`, "")), want: []string{"public-endpoint"}},
		{plan: awsPlan("aws_eks_cluster", creates, `"before":null,"after":{},"after_unknown":{"vpc_config":true}`), want: []string{"public-endpoint"}},
		{plan: awsPlan("aws_eks_cluster", deletes, `"before":{},"after":null`)},
	},
	"no-open-ingress.yaml": {
		{plan: awsPlan("aws_security_group", creates, `"before":null,"after":{"ingress":[{"cidr_blocks":["10.0.0.0/8"],"ipv6_cidr_blocks":null}]}`)},
		{plan: awsPlan("aws_security_group", creates, `"before":null,"after":{"name":"a"},"after_unknown":{"ingress":true}`)},
		{plan: awsPlan("aws_security_group", creates, `"before":null,"after":{"ingress":[{"cidr_blocks":[],"ipv6_cidr_blocks":["::/0"]}]}`), want: []string{"security-group"}},
		{plan: awsPlan("aws_security_group", updates, `"before":{"ingress":[]},"after":{"ingress":[{"cidr_blocks":["10.0.0.0/8","0.0.0.0/0"]}]}`), want: []string{"security-group"}},
		{plan: awsPlan("aws_security_group", creates, `"before":null,"after":{"ingress":[{"ipv6_cidr_blocks":[]}]},"after_unknown":{"ingress":[{"cidr_blocks":true}]}`), want: []string{"hidden-networks"}},
		{plan: awsPlan("aws_security_group_rule", creates, `"before":null,"after":{"type":"ingress","cidr_blocks":["0.0.0.0/0"]}`), want: []string{"security-group-rule"}},
		{plan: awsPlan("aws_security_group", creates, `"before":null,"after":{"ingress":[{"cidr_blocks":["0.0.0.0/1","128.0.0.0/1"]}]}`), want: []string{"security-group"}},
		{plan: awsPlan("aws_security_group_rule", creates, `"before":null,"after":{"type":"ingress","ipv6_cidr_blocks":["2000::/3"]}`), want: []string{"security-group-rule"}},
		{plan: awsPlan("aws_vpc_security_group_ingress_rule", creates, `"before":null,"after":{"cidr_ipv4":"64.0.0.0/2"}`), want: []string{"ingress-rule"}},
		{plan: awsPlan("aws_security_group", creates, `"before":null,"after":{"ingress":[{"cidr_blocks":["10.0.0.0/8","203.0.113.7/32"],"ipv6_cidr_blocks":["2001:db8::/32","fd00::/8"]}]}`)},
		{plan: awsPlan("aws_security_group_rule", creates, `"before":null,"after":{"type":"egress","cidr_blocks":["0.0.0.0/0"]}`)},
		{plan: awsPlan("aws_vpc_security_group_ingress_rule", creates, `"before":null,"after":{"cidr_ipv4":"0.0.0.0/0","cidr_ipv6":null}`), want: []string{"ingress-rule"}},
		{plan: awsPlan("aws_vpc_security_group_ingress_rule", creates, `"before":null,"after":{"cidr_ipv6":null},"after_unknown":{"cidr_ipv4":true}`), want: []string{"hidden-networks"}},
		{plan: awsPlan("aws_security_group", creates, `"before":null,"after":{"ingress":[{"cidr_blocks":["0.0.0.0/0"]}]},"after_sensitive":{"ingress":true}`), want: []string{"hidden-networks"}},
		{plan: awsPlan("aws_vpc_security_group_ingress_rule", deletes, `"before":{"cidr_ipv4":"0.0.0.0/0"},"after":null`)},
	},
	"allowed-regions.yaml": {
		{plan: awsPlan("aws_s3_bucket", creates, `"before":null,"after":{"region":"eu-west-1"}`)},
		{plan: awsPlan("aws_s3_bucket", creates, `"before":null,"after":{"region":"us-east-1"}`), want: []string{"region"}},
		{plan: awsPlan("aws_subnet", creates, `"before":null,"after":{"availability_zone":"us-east-1a"}`), want: []string{"availability-zone"}},
		{plan: awsPlan("aws_subnet", creates, `"before":null,"after":{"availability_zone":"eu-central-1c","region":null}`)},
		{plan: awsPlan("aws_s3_bucket", deletes, `"before":{"region":"us-east-1"},"after":null`)},
	},
	"instance-families.yaml": {
		{plan: awsPlan("aws_instance", creates, `"before":null,"after":{"instance_type":"m7i.large"}`)},
		{plan: awsPlan("aws_instance", creates, `"before":null,"after":{"instance_type":"p5.48xlarge"}`), want: []string{"instance-type"}},
		{plan: awsPlan("aws_launch_template", creates, `"before":null,"after":{"instance_type":null}`)},
		{plan: awsPlan("aws_eks_node_group", creates, `"before":null,"after":{"instance_types":["m7g.large","x2gd.large"]}`), want: []string{"node-group"}},
		{plan: awsPlan("aws_eks_node_group", creates, `"before":null,"after":{"instance_types":["m7g.large"]}`)},
	},
	"required-tags.yaml": {
		{plan: awsPlan("aws_vpc", creates, `"before":null,"after":{"tags_all":{"team":"a","cost-centre":"7"}}`)},
		{plan: awsPlan("aws_vpc", creates, `"before":null,"after":{"tags_all":{"team":"a"}}`), want: []string{"tags"}},
		{plan: awsPlan("aws_vpc", updates, `"before":{"tags_all":{}},"after":{"tags_all":null}`), want: []string{"tags"}},
		{plan: awsPlan("aws_vpc", creates, `"before":null,"after":{},"after_unknown":{"tags_all":true}`), want: []string{"hidden-tags"}},
		{plan: awsPlan("aws_vpc", creates, `"before":null,"after":{"tags_all":{}},"after_sensitive":{"tags_all":true}`), want: []string{"hidden-tags"}},
		{plan: awsPlan("aws_route", creates, `"before":null,"after":{"a":1}`)},
		{plan: awsPlan("aws_vpc", deletes, `"before":{"tags_all":{}},"after":null`)},
	},
}

func TestBuiltinPolicies(t *testing.T) {
	files, err := filepath.Glob(builtin + "/*.yaml")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(files).To(HaveLen(len(builtinTests)), "each policy has tests")
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			g := NewWithT(t)
			text, err := os.ReadFile(file)
			g.Expect(err).NotTo(HaveOccurred())
			var p infrav1.ClusterWorkspacePolicy
			g.Expect(yaml.UnmarshalStrict(text, &p)).To(Succeed())
			g.Expect(p.Name + ".yaml").To(Equal(filepath.Base(file)))
			rules := template.PlanRules(p.Spec.Rules)
			unseen := map[string]bool{}
			for _, rule := range rules {
				g.Expect(policy.Check(rule)).To(BeEmpty(), rule.Name)
				unseen[rule.Name] = true
			}
			for _, test := range builtinTests[filepath.Base(file)] {
				var violated []string
				for _, v := range evaluate(t, test.plan, policy.Plan{Destroy: test.destroy}, rules...) {
					violated = append(violated, v.Rule)
					delete(unseen, v.Rule)
					if v.Message == "" || strings.Contains(v.Message, "cannot be evaluated") && !strings.Contains(test.plan, `"vpc_config":true`) {
						t.Errorf("rule %s: %s\n%s", v.Rule, v.Message, test.plan)
					}
				}
				slices.Sort(violated)
				g.Expect(violated).To(Equal(test.want), test.plan)
			}
			g.Expect(unseen).To(BeEmpty(), "each rule is violated by a test")
		})
	}
}

// Until an adoption is committed nothing changes, and until it is complete nothing is destroyed
// or replaced, not even by the deletion of the workspace.
func TestAdoption_keepsResources(t *testing.T) {
	const observe, commit = infrav1.AdoptionObserve, infrav1.AdoptionCommit
	for _, test := range []struct {
		name             string
		template, apply  infrav1.AdoptionStage
		actions          string
		destroy          bool
		want             []string
		requiresApproval bool
	}{
		{name: "no adoption", actions: deletes},
		{name: "an import while it is observed", apply: observe, actions: `"no-op"`, want: []string{"observe"}},
		{name: "a replacement while it is observed", apply: observe, actions: replaces, want: []string{"keeps", "observe"}},
		{name: "an observing template", template: observe, apply: commit, actions: updates, want: []string{"observe"}},
		{name: "an observing workspace", template: commit, apply: observe, actions: updates, want: []string{"observe"}},
		{name: "an update with the commit", apply: commit, actions: updates, want: []string{"commit"}, requiresApproval: true},
		{name: "a replacement with the commit", template: commit, actions: replaces, want: []string{"commit", "keeps"}},
		{name: "a deletion of the workspace", apply: commit, actions: deletes, destroy: true, want: []string{"commit", "keeps"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			apply := &infrav1.WorkspaceTemplateApply{Spec: infrav1.WorkspaceTemplateApplySpec{Adoption: test.apply}}
			tmpl := &infrav1.WorkspaceTemplate{Spec: infrav1.WorkspaceTemplateSpec{Template: infrav1.WorkspaceTemplateDefinition{Spec: infrav1.WorkspaceSpec{Adoption: test.template}}}}
			policies, err := template.PoliciesOf(template.PolicySources{Apply: apply, Template: tmpl})
			g.Expect(err).NotTo(HaveOccurred())
			if test.want == nil {
				g.Expect(policies).To(BeNil())
				return
			}
			g.Expect(policies.Policies).To(HaveLen(1))
			var violated []string
			strictest := terraform.PolicyRequireApproval
			plan := awsPlan("aws_vpc", test.actions, `"before":{"a":1},"after":{"a":2},"importing":{"id":"vpc-1"},"replace_paths":[["cidr_block"]]`)
			for _, v := range evaluate(t, plan, policy.Plan{Destroy: test.destroy}, policies.Policies[0].Rules...) {
				violated = append(violated, v.Rule)
				g.Expect(v.Message).NotTo(ContainSubstring("cannot be evaluated"))
				if v.Action == terraform.PolicyDeny {
					strictest = terraform.PolicyDeny
				}
			}
			slices.Sort(violated)
			g.Expect(violated).To(Equal(test.want))
			g.Expect(strictest == terraform.PolicyRequireApproval).To(Equal(test.requiresApproval))
		})
	}
}
