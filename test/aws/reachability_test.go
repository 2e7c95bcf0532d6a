package aws

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/terraform/template"
	"github.com/appthrust/capt/internal/testenv"
)

// port is a port that a pod or a node listens on.
type port struct {
	protocol string
	number   int
}

func (p port) String() string { return fmt.Sprintf("%d/%s", p.number, p.protocol) }

var (
	api       = port{"tcp", 443}
	kubelet   = port{"tcp", 10250}
	admission = []port{{"tcp", 443}, {"tcp", 8443}, {"tcp", 9443}}
	// pods are ports of DNS, an application, its webhook and its metrics, the kubelet and
	// a NodePort.
	pods = append([]port{{"udp", 53}, {"tcp", 53}, {"tcp", 8080}, kubelet, {"tcp", 30000}}, admission...)
)

// rule is a rule of a security group.
type rule struct {
	Group      string `xml:"groupId"`
	Egress     bool   `xml:"isEgress"`
	Protocol   string `xml:"ipProtocol"`
	From       int    `xml:"fromPort"`
	To         int    `xml:"toPort"`
	CIDR       string `xml:"cidrIpv4"`
	Referenced string `xml:"referencedGroupInfo>groupId"`
}

// admits reports whether the rule is about a port and a peer that has some security
// groups and an address in the VPC.
func (r rule) admits(p port, peer []string) bool {
	if r.Protocol != "-1" && (r.Protocol != p.protocol || p.number < r.From || p.number > r.To) {
		return false
	}
	if r.Referenced != "" {
		return slices.Contains(peer, r.Referenced)
	}
	network, err := netip.ParsePrefix(r.CIDR)
	return err == nil && network.Contains(netip.MustParseAddr("10.0.0.10"))
}

// reaches reports whether a connection from one list of security groups to a port of
// another is possible.
func reaches(rules []rule, from, to []string, p port) bool {
	allowed := func(groups, peer []string, egress bool) bool {
		return slices.ContainsFunc(rules, func(r rule) bool {
			return r.Egress == egress && slices.Contains(groups, r.Group) && r.admits(p, peer)
		})
	}
	return allowed(from, to, true) && allowed(to, from, false)
}

func TestReaches(t *testing.T) {
	rules := []rule{
		{Group: "a", Egress: true, Protocol: "-1", CIDR: "0.0.0.0/0"},
		{Group: "b", Protocol: "tcp", From: 443, To: 445, Referenced: "a"},
		{Group: "b", Egress: true, Protocol: "tcp", From: 443, To: 443, CIDR: "0.0.0.0/0"},
		{Group: "c", Protocol: "-1", CIDR: "192.0.2.0/24"},
	}
	for _, c := range []struct {
		from, to string
		port     port
		want     bool
	}{
		{"a", "b", port{"tcp", 444}, true},
		{"a", "b", port{"udp", 444}, false},
		{"a", "b", port{"tcp", 446}, false},
		{"b", "a", port{"tcp", 443}, false},
		{"a", "c", port{"tcp", 443}, false},
	} {
		NewWithT(t).Expect(reaches(rules, []string{c.from}, []string{c.to}, c.port)).To(Equal(c.want), "%s to %s on %s", c.from, c.to, c.port)
	}
}

// Every kind of node of a cluster, each with the variables that CAPT gives to its
// template. The groups of the nodes and their rules are those of the account.
func TestSecurityGroups_everyPodReachesEveryPod(t *testing.T) {
	needsEmulator(t)
	e := startEmulator(t)
	vpc := e.network("demo")
	cluster := e.module("eks", object{
		"cluster_name": "demo", "kubernetes_version": "1.33", "karpenter_interruption_queue": false,
		"vpc_id": output[string](vpc, "vpc_id"), "subnet_ids": output[[]string](vpc, "private_subnets"),
	})
	cluster.apply(nil)
	before := e.resources()
	info := clusterInfo(cluster)
	named := metav1.ObjectMeta{Name: "workers"}
	replicas := int32(1)
	poolSpec, err := (&desired.MachinePool{
		Cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}, Info: info, Pool: &infrav1.CAPTMachinePool{ObjectMeta: named},
		Owner: &clusterv1.MachinePool{ObjectMeta: named, Spec: clusterv1.MachinePoolSpec{Replicas: &replicas}},
	}).Workspace(shippedTemplate(e, "eks-node-group"))
	e.Expect(err).NotTo(HaveOccurred())
	pool := e.module("node-group", variables(e, poolSpec.Spec.Variables))
	pool.apply(nil)
	machineSpec, err := (&desired.Machine{
		Cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}, Info: info,
		Machine: &infrav1.CAPTMachine{ObjectMeta: metav1.ObjectMeta{Name: "demo-md-0-abcde"}},
	}).Workspace(shippedTemplate(e, "eks-machine"))
	e.Expect(err).NotTo(HaveOccurred())
	machine := e.module("machine", variables(e, machineSpec.Spec.Variables))
	machine.apply(nil)

	control := []string{output[string](cluster, "cluster_security_group_id")}
	kinds := []struct {
		name   string
		groups []string
	}{
		{"Fargate", control},
		{"system nodes", e.nodeGroupGroups("demo", output[string](cluster, "node_group_name"), control)},
		{"pool", e.nodeGroupGroups("demo", output[string](pool, "node_group_name"), control)},
		{"machine", e.instanceGroups(output[string](machine, "instance_id"))},
		{"Karpenter", e.taggedGroups("karpenter.sh/discovery", "demo")},
	}
	var rules struct {
		Items []rule `xml:"securityGroupRuleSet>item"`
	}
	e.describe(&rules, "DescribeSecurityGroupRules")
	check := func(from, to string, fromGroups, toGroups []string, ports []port) {
		t.Helper()
		var open, closed []string
		for _, p := range ports {
			if reaches(rules.Items, fromGroups, toGroups, p) {
				open = append(open, p.String())
			} else {
				closed = append(closed, p.String())
			}
		}
		t.Logf("%-13s -> %-13s %s", from, to, strings.Join(open, " "))
		if len(closed) > 0 {
			t.Errorf("%s cannot reach %s on %s", from, to, strings.Join(closed, ", "))
		}
	}
	for _, to := range kinds {
		e.Expect(to.groups).NotTo(BeEmpty(), to.name)
		for _, from := range kinds {
			check(from.name, to.name, from.groups, to.groups, pods)
		}
		check("control plane", to.name, control, to.groups, append([]port{kubelet}, admission...))
		check(to.name, "control plane", to.groups, control, []port{api})
	}

	machine.destroy()
	pool.destroy()
	e.Expect(e.resources()).To(Equal(before))
}

// clusterInfo returns what CAPT knows about a cluster with the outputs of a module.
func clusterInfo(r *root) *desired.ClusterInfo {
	r.t.Helper()
	var outputs map[string]struct{ Value json.RawMessage }
	r.Expect(json.Unmarshal([]byte(r.tofu("output", "-json")), &outputs)).To(Succeed())
	apply := &infrav1.WorkspaceTemplateApply{}
	apply.Status.Outputs = map[string]infrav1.Value{}
	for name, output := range outputs {
		apply.Status.Outputs[name] = infrav1.Value{Raw: output.Value}
	}
	plane := &controlplanev1.CAPTControlPlane{Spec: controlplanev1.CAPTControlPlaneSpec{Version: "v1.33.0"}}
	info, err := desired.NewClusterInfo(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}, plane, apply, nil)
	r.Expect(err).NotTo(HaveOccurred())
	return info
}

// shippedTemplate returns a template of the directory templates, inspected.
func shippedTemplate(e *emulator, name string) *infrav1.WorkspaceTemplate {
	e.t.Helper()
	top, err := testenv.Root()
	e.Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(top, "templates", name+".yaml"))
	e.Expect(err).NotTo(HaveOccurred())
	shipped := &infrav1.WorkspaceTemplate{}
	e.Expect(yaml.UnmarshalStrict(text, shipped)).To(Succeed())
	e.Expect(template.Inspect(shipped)).To(Succeed())
	return shipped
}

// variables returns variables of a workspace as those of a root module.
func variables(e *emulator, of map[string]infrav1.Value) object {
	e.t.Helper()
	text, err := json.Marshal(of)
	e.Expect(err).NotTo(HaveOccurred())
	vars := object{}
	e.Expect(json.Unmarshal(text, &vars)).To(Succeed())
	return vars
}

// describe calls EC2 with pairs of parameters and values, and decodes the response.
func (e *emulator) describe(into any, action string, pairs ...string) {
	e.t.Helper()
	status, text := e.ec2(action, pairs...)
	e.Expect(status).To(Equal(200), "%s: %s", action, text)
	e.Expect(xml.Unmarshal([]byte(text), into)).To(Succeed(), text)
}

// nodeGroupGroups returns the security groups of the nodes of a managed node group.
// EKS adds the cluster's unless the launch template has some.
func (e *emulator) nodeGroupGroups(cluster, name string, fallback []string) []string {
	e.t.Helper()
	var group struct {
		Nodegroup struct {
			LaunchTemplate struct{ ID, Version string }
		}
	}
	e.Expect(json.Unmarshal([]byte(e.eks("GET", "/clusters/"+cluster+"/node-groups/"+name, "")), &group)).To(Succeed())
	var versions struct {
		Groups []string `xml:"launchTemplateVersionSet>item>launchTemplateData>securityGroupIdSet>item"`
	}
	e.describe(&versions, "DescribeLaunchTemplateVersions", "LaunchTemplateId", group.Nodegroup.LaunchTemplate.ID, "LaunchTemplateVersion.1", group.Nodegroup.LaunchTemplate.Version)
	if len(versions.Groups) == 0 {
		return fallback
	}
	return versions.Groups
}

func (e *emulator) instanceGroups(id string) []string {
	e.t.Helper()
	var found struct {
		Groups []string `xml:"reservationSet>item>instancesSet>item>networkInterfaceSet>item>groupSet>item>groupId"`
	}
	e.describe(&found, "DescribeInstances", "InstanceId.1", id)
	return found.Groups
}

func (e *emulator) taggedGroups(key, value string) []string {
	e.t.Helper()
	var found struct {
		Groups []string `xml:"securityGroupInfo>item>groupId"`
	}
	e.describe(&found, "DescribeSecurityGroups", "Filter.1.Name", "tag:"+key, "Filter.1.Value.1", value)
	return found.Groups
}
