package aws

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/cluster/aws"
)

// elb calls an action of Elastic Load Balancing and returns its response.
func (e *emulator) elb(version, action string, pairs ...string) string {
	e.t.Helper()
	form := url.Values{"Version": {version}}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return e.call(query{service: "elasticloadbalancing", action: action, form: form})
}

const (
	classicELB = "2012-06-01"
	elbV2      = "2015-12-01"
)

// tagForm returns the parameters of tags: a prefix such as Tags.member, and keys and
// values.
func tagForm(prefix string, tags ...string) []string {
	var form []string
	for i := 0; i < len(tags); i += 2 {
		n := i/2 + 1
		form = append(form, fmt.Sprintf("%s.%d.Key", prefix, n), tags[i], fmt.Sprintf("%s.%d.Value", prefix, n), tags[i+1])
	}
	return form
}

func specification(kind string, tags ...string) []string {
	return append([]string{"TagSpecification.1.ResourceType", kind}, tagForm("TagSpecification.1.Tag", tags...)...)
}

// leave creates in the account what controllers of a cluster create: the cloud controller
// manager, the AWS Load Balancer Controller, EKS Auto Mode, the VPC CNI and Karpenter. nodeGroup is the
// security group of the nodes, to which the controllers add rules.
func (e *emulator) leave(cluster, vpc string, subnets []string, nodeGroup string) {
	e.t.Helper()
	owned := []string{"kubernetes.io/cluster/" + cluster, "owned"}
	group := func(name string, tags ...string) string {
		return e.create("groupId", "CreateSecurityGroup", append([]string{"GroupName", name, "GroupDescription", name, "VpcId", vpc},
			specification("security-group", tags...)...)...)
	}
	classic := group("k8s-elb-a1"+cluster, owned...)
	backend := group("k8s-traffic-"+cluster, "elbv2.k8s.aws/cluster", cluster)
	auto := group("k8s-auto-"+cluster, "eks:eks-cluster-name", cluster)
	for _, id := range []string{classic, backend, auto} {
		e.accepts("AuthorizeSecurityGroupIngress", "GroupId", nodeGroup, "IpPermissions.1.IpProtocol", "tcp", "IpPermissions.1.FromPort", "30000",
			"IpPermissions.1.ToPort", "32767", "IpPermissions.1.Groups.1.GroupId", id)
	}
	e.elb(classicELB, "CreateLoadBalancer", append([]string{
		"LoadBalancerName", "a1" + cluster, "Subnets.member.1", subnets[0], "SecurityGroups.member.1", classic,
		"Listeners.member.1.Protocol", "tcp", "Listeners.member.1.LoadBalancerPort", "80", "Listeners.member.1.InstancePort", "30080",
	}, tagForm("Tags.member", append(owned, "kubernetes.io/service-name", "default/web")...)...)...)
	e.elb(elbV2, "CreateLoadBalancer", append([]string{
		"Name", "k8s-web-" + cluster, "Subnets.member.1", subnets[0], "Subnets.member.2", subnets[1], "SecurityGroups.member.1", backend,
	}, tagForm("Tags.member", "elbv2.k8s.aws/cluster", cluster, "service.k8s.aws/stack", "default/web")...)...)
	e.elb(elbV2, "CreateTargetGroup", append([]string{"Name", "k8s-web-" + cluster, "Protocol", "HTTP", "Port", "80", "VpcId", vpc},
		tagForm("Tags.member", "elbv2.k8s.aws/cluster", cluster)...)...)
	e.leaveAutoMode(cluster, vpc, subnets, auto)
	e.create("networkInterfaceId", "CreateNetworkInterface", append([]string{
		"SubnetId", subnets[0], "SecurityGroupId.1", nodeGroup, "Description", "aws-K8S-i-0123456789abcdef0",
	}, specification("network-interface", "cluster.k8s.amazonaws.com/name", cluster)...)...)
	// Older versions of the CNI do not know the name of the cluster.
	e.create("networkInterfaceId", "CreateNetworkInterface", append([]string{
		"SubnetId", subnets[1], "SecurityGroupId.1", nodeGroup, "Description", "aws-K8S-i-0123456789abcdef1",
	}, specification("network-interface", "node.k8s.amazonaws.com/instance_id", "i-0123456789abcdef1")...)...)
	e.create("instanceId", "RunInstances", append([]string{
		"ImageId", "ami-12c6146b", "InstanceType", "m5.large", "MinCount", "1", "MaxCount", "1", "SubnetId", subnets[0], "SecurityGroupId.1", nodeGroup,
	}, specification("instance", append(owned, "karpenter.sh/nodepool", "default")...)...)...)
	e.create("launchTemplateId", "CreateLaunchTemplate", append([]string{
		"LaunchTemplateName", "karpenter.k8s.aws/" + cluster, "LaunchTemplateData.InstanceType", "m5.large",
	}, specification("launch-template", "karpenter.k8s.aws/ec2nodeclass", "default", "eks:eks-cluster-name", cluster)...)...)
	profile := cluster + "_1234567890"
	form := func(pairs ...string) url.Values {
		values := url.Values{"Version": {"2010-05-08"}}
		for i := 0; i < len(pairs); i += 2 {
			values.Set(pairs[i], pairs[i+1])
		}
		return values
	}
	e.call(query{service: "iam", action: "CreateInstanceProfile", form: form("InstanceProfileName", profile, "Path", "/karpenter/"+e.region+"/"+cluster+"/1234/")})
	role := "node-of-" + cluster
	if status, _ := e.attempt(query{service: "iam", action: "GetRole", form: form("RoleName", role)}); status == http.StatusOK {
		e.call(query{service: "iam", action: "AddRoleToInstanceProfile", form: form("InstanceProfileName", profile, "RoleName", role)})
	}
}

// leaveAutoMode creates a network load balancer as EKS Auto Mode does, with its tags.
func (e *emulator) leaveAutoMode(cluster, vpc string, subnets []string, group string) {
	e.t.Helper()
	tags := tagForm("Tags.member", "eks:eks-cluster-name", cluster, "service.eks.amazonaws.com/stack", "default/web", "service.eks.amazonaws.com/resource", "LoadBalancer")
	e.elb(elbV2, "CreateLoadBalancer", append([]string{
		"Name", "k8s-auto-" + cluster, "Type", "network", "Subnets.member.1", subnets[0], "Subnets.member.2", subnets[1], "SecurityGroups.member.1", group,
	}, tags...)...)
	e.elb(elbV2, "CreateTargetGroup", append([]string{"Name", "k8s-auto-" + cluster, "Protocol", "TCP", "Port", "80", "VpcId", vpc}, tags...)...)
}

// volume creates the volume of a PersistentVolume.
func (e *emulator) volume(cluster string) string {
	e.t.Helper()
	return e.create("volumeId", "CreateVolume", append([]string{"AvailabilityZone", e.region + "a", "Size", "1"},
		specification("volume", "kubernetes.io/cluster/"+cluster, "owned", "kubernetes.io/created-for/pv/name", "pvc-1", "ebs.csi.aws.com/cluster", "true")...)...)
}

// cluster creates an EKS cluster and returns the host of its endpoint.
func (e *emulator) cluster(name string, subnets []string) string {
	e.t.Helper()
	e.createRole(name, "eks")
	text := e.eks(http.MethodPost, "/clusters", fmt.Sprintf(`{"name":%[1]q,"roleArn":"arn:aws:iam::123456789012:role/%[1]s","resourcesVpcConfig":{"subnetIds":[%[2]q,%[3]q]}}`, name, subnets[0], subnets[1]))
	found := regexp.MustCompile(`"endpoint":"https://([^"]+)"`).FindStringSubmatch(text)
	e.Expect(found).To(HaveLen(2), text)
	return found[1]
}

// everything returns the resources of the account, with those that no module creates.
func (e *emulator) everything() []string {
	e.t.Helper()
	names := e.resources()
	for action, pattern := range map[string]string{"DescribeLoadBalancers": `<LoadBalancerArn>[^<]+`, "DescribeTargetGroups": `<TargetGroupArn>[^<]+`} {
		names = append(names, regexp.MustCompile(pattern).FindAllString(e.elb(elbV2, action), -1)...)
	}
	names = append(names, regexp.MustCompile(`<LoadBalancerName>[^<]+`).FindAllString(e.elb(classicELB, "DescribeLoadBalancers"), -1)...)
	slices.Sort(names)
	return names
}

// Leftovers of a cluster are found by the tags of their controllers, and are deleted in an
// order that EC2 accepts. What Terraform manages, and what another cluster uses in the
// same VPC, stays.
func TestLeftovers_areDeletedAndForeignOnesStay(t *testing.T) {
	needsEmulator(t)
	e := startEmulator(t)
	vpc := e.create("vpcId", "CreateVpc", "CidrBlock", "10.0.0.0/16")
	var subnets []string
	for i, zone := range []string{"a", "b"} {
		subnets = append(subnets, e.create("subnetId", "CreateSubnet", "VpcId", vpc, "CidrBlock", fmt.Sprintf("10.0.%d.0/24", i), "AvailabilityZone", region+zone))
	}
	nodeGroup := func(cluster string) string {
		return e.create("groupId", "CreateSecurityGroup", append([]string{"GroupName", cluster + "-node", "GroupDescription", "nodes", "VpcId", vpc},
			specification("security-group", "kubernetes.io/cluster/"+cluster, "owned")...)...)
	}
	mine, theirs := nodeGroup("demo"), nodeGroup("demo-two")
	// EKS and Terraform have these with the tag of the cluster.
	endpoint := e.cluster("demo", subnets)
	e.create("instanceId", "RunInstances", append([]string{
		"ImageId", "ami-12c6146b", "InstanceType", "m5.large", "MinCount", "1", "MaxCount", "1", "SubnetId", subnets[0], "SecurityGroupId.1", mine,
	}, specification("instance", "kubernetes.io/cluster/demo", "owned", "Name", "a machine of CAPT")...)...)
	// An interface without a tag, in the VPC, that is not attached.
	e.create("networkInterfaceId", "CreateNetworkInterface", "SubnetId", subnets[0], "Description", "of a user")
	e.leave("demo-two", vpc, subnets, theirs)
	before := e.everything()

	e.leave("demo", vpc, subnets, mine)
	volume := e.volume("demo")
	credentials, err := aws.FromEnv(e.settings(), nil)
	e.Expect(err).NotTo(HaveOccurred())
	config, err := aws.Load(t.Context(), credentials, aws.Options{})
	e.Expect(err).NotTo(HaveOccurred())
	question := aws.LeftoverQuery{Cluster: "demo", Endpoint: "other.example.com", VPC: vpc, Managed: []string{mine}, Delete: true}
	_, err = aws.SweepLeftovers(t.Context(), config, question)
	e.Expect(aws.KindOf(err)).To(Equal(aws.KindElsewhere), "the cluster of that name in the account is another one")
	question.Endpoint, question.Delete = endpoint, false

	found, err := aws.SweepLeftovers(t.Context(), config, question)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(found.Remaining).To(HaveLen(13), strings.Join(found.Remaining, "\n"))
	e.Expect(found.Retained).To(HaveExactElements(ContainSubstring(volume)))
	e.Expect(found.Unread).To(BeEmpty())
	all := e.everything()
	e.Expect(len(all)).To(BeNumerically(">", len(before)), "a lookup deletes nothing")

	question.Delete = true
	e.Eventually(func(g Gomega) {
		found, err := aws.SweepLeftovers(t.Context(), config, question)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(found.Remaining).To(BeEmpty())
	}, testTimeout, time.Second).Should(Succeed())
	e.Expect(e.everything()).To(ConsistOf(append(before, "ec2 "+volume)), "volumes hold data and stay")
}
