package aws

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

type object = map[string]any

// network creates a VPC for a cluster.
func (e *emulator) network(cluster string) *root {
	e.t.Helper()
	vpc := e.module("network", object{"name": cluster + "-vpc", "cluster_name": cluster, "azs": []string{region + "a", region + "b"}})
	vpc.apply(nil)
	return vpc
}

func TestNetwork_isCreatedChangedAndDestroyed(t *testing.T) {
	needsEmulator(t)
	e := startEmulator(t)
	before := e.resources()
	vpc := e.module("network", object{"name": "demo-vpc", "cluster_name": "demo", "tags": object{"stage": "one"}})
	vpc.apply(nil)
	e.Expect(output[[]string](vpc, "private_subnets")).To(HaveLen(3))
	id := output[string](vpc, "vpc_id")
	e.Expect(e.resources()).To(ContainElement("ec2 " + id))

	vpc.apply(object{"tags": object{"stage": "two"}, "nat_gateway": "PerZone", "gateway_endpoints": []string{"s3", "dynamodb"}})
	e.Expect(output[string](vpc, "vpc_id")).To(Equal(id), "a change keeps the VPC")
	e.Expect(output[[]string](vpc, "nat_public_ips")).To(HaveLen(3))

	vpc.destroy()
	e.Expect(e.resources()).To(Equal(before))
}

// IAM is global, clusters are regional.
func TestEKS_sameNameInTwoRegions(t *testing.T) {
	needsEmulator(t)
	e := startEmulator(t)
	before := e.resources()
	var all []*root
	for _, where := range []string{region, "eu-west-1"} {
		vpc := e.module("network", object{"name": "demo-vpc", "cluster_name": "demo", "region": where, "azs": []string{where + "a", where + "b"}})
		vpc.apply(nil)
		cluster := e.module("eks", object{
			"cluster_name": "demo", "kubernetes_version": "1.35", "region": where, "compute": "Fargate", "karpenter_interruption_queue": false,
			"vpc_id": output[string](vpc, "vpc_id"), "subnet_ids": output[[]string](vpc, "private_subnets"),
		})
		cluster.apply(nil)
		all = append(all, cluster, vpc)
	}
	for _, r := range all {
		r.destroy()
	}
	e.Expect(e.resources()).To(Equal(before))
}

// Imported resources have other names. A new name would replace the role of a control plane,
// and with it the control plane.
func TestEKS_keepsTheNamesOfImportedResources(t *testing.T) {
	needsEmulator(t)
	e := startEmulator(t)
	vpc := e.network("demo")
	cluster := e.module("eks", object{
		"cluster_name": "demo", "kubernetes_version": "1.35", "compute": "Fargate", "karpenter_interruption_queue": false,
		"vpc_id": output[string](vpc, "vpc_id"), "subnet_ids": output[[]string](vpc, "private_subnets"),
	})
	current := map[string][]byte{}
	for file, name := range map[string]string{
		"../eks-cluster/main.tf": "-${coalesce(var.region, data.aws_region.current.region)}", "cluster.tf": "-${coalesce(var.region, data.aws_region.current.region)}",
		"../karpenter-iam/main.tf": "${var.cluster_name}-${local.region}", "../fargate-profile/main.tf": "${var.name}-${local.region}",
	} {
		path := filepath.Join(cluster.dir, file)
		text, err := os.ReadFile(path)
		e.Expect(err).NotTo(HaveOccurred())
		e.Expect(string(text)).To(ContainSubstring(name), file)
		kept, _, _ := strings.Cut(name, "-$")
		current[path] = text
		e.Expect(os.WriteFile(path, bytes.Replace(text, []byte(name), []byte(kept), 1), 0o600)).To(Succeed())
	}
	cluster.apply(nil)
	e.Expect(e.resources()).To(ContainElements(HaveSuffix(":role/demo-cluster"), HaveSuffix(":role/KarpenterNode-demo"), HaveSuffix(":role/demo-coredns-fargate")))
	for path, text := range current {
		e.Expect(os.WriteFile(path, text, 0o600)).To(Succeed())
	}
	out, code := cluster.try("plan", "-detailed-exitcode", "-input=false", "-no-color")
	e.Expect(code).To(BeZero(), out)
	e.Expect(output[string](cluster, "karpenter_instance_profile_name")).To(Equal("KarpenterNode-demo"))
}

// The whole template: control plane, add-ons, the node group of Flux and Karpenter, and
// the AWS resources that Karpenter needs.
func TestEKS_isCreatedUpgradedAndDestroyed(t *testing.T) {
	needsEmulator(t)
	e := startEmulator(t)
	before := e.resources()
	vpc := e.network("demo")
	cluster := e.module("eks", object{
		"cluster_name": "demo", "kubernetes_version": "1.32", "tags": object{"stage": "one"},
		"vpc_id": output[string](vpc, "vpc_id"), "subnet_ids": output[[]string](vpc, "private_subnets"),
	})
	cluster.apply(nil)
	e.Expect(output[map[string]string](cluster, "cluster_addons")).To(HaveKeyWithValue("coredns", HavePrefix("v1.32.")))
	e.Expect(e.resources()).To(ContainElements(
		"eks "+region+"/clusters/demo", "eks "+region+"/clusters/demo/addons/vpc-cni",
		"iam arn:aws:iam::123456789012:role/KarpenterController-demo-"+region, MatchRegexp(`^sqs /[0-9]+/Karpenter-demo$`)))
	group := output[string](cluster, "node_group_name")

	cluster.apply(object{
		"kubernetes_version": "1.33", "tags": object{"stage": "two"}, "karpenter_identity": "PodIdentity",
		"log_types":      []string{"api", "audit", "authenticator", "scheduler"},
		"ebs_csi_driver": true, "aws_load_balancer_controller_role": true, "external_dns_role": true, "external_dns_hosted_zones": []string{"Z0123456789ABCDEFGHIJ"},
		"node_groups":    object{"arm": object{"instance_types": []string{"m7g.large"}, "capacity_type": "Spot"}},
		"cluster_addons": object{"metrics-server": object{}, "coredns": object{"configuration_values": `{"replicaCount":3}`}},
		"access_entries": object{"admin": object{
			"principal_arn":       "arn:aws:iam::123456789012:role/admin",
			"policy_associations": object{"admin": object{"policy_arn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"}},
		}},
	})
	e.Expect(output[string](cluster, "cluster_version")).To(Equal("1.33"))
	e.Expect(output[map[string]string](cluster, "cluster_addons")).To(And(
		HaveKeyWithValue("metrics-server", HavePrefix("v1.33.")), HaveKeyWithValue("vpc-cni", HavePrefix("v1.33."))))
	e.Expect(output[string](cluster, "node_group_name")).To(Equal(group), "an upgrade keeps the node group")
	e.Expect(e.resources()).To(ContainElements(
		"eks "+region+"/clusters/demo/access-entries/arn:aws:iam::123456789012:role/admin",
		"eks "+region+"/clusters/demo/addons/aws-ebs-csi-driver",
		HaveSuffix(":role/demo-"+region+"-ebs-csi"), HaveSuffix(":role/demo-"+region+"-elb"), HaveSuffix(":role/demo-"+region+"-dns"),
		HaveSuffix(":role/demo-arm-"+region+"-node"),
		MatchRegexp("^eks "+region+"/clusters/demo/pod-identity-associations/")))

	cluster.destroy()
	e.Expect(e.resources()).NotTo(ContainElement(HavePrefix("eks ")))
	vpc.destroy()
	e.Expect(e.resources()).To(Equal(before))
}

// A cluster enters and leaves Auto Mode in place. It does not stay in Auto Mode unnoticed.
func TestEKSCluster_entersAndLeavesAutoMode(t *testing.T) {
	needsEmulator(t)
	e := startEmulator(t)
	before := e.resources()
	vpc := e.network("demo")
	cluster := e.module("eks-cluster", object{
		"cluster_name": "demo", "kubernetes_version": "1.35", "region": region, "cluster_addons": object{},
		"vpc_id": output[string](vpc, "vpc_id"), "subnet_ids": output[[]string](vpc, "private_subnets"),
	})
	cluster.apply(nil)
	cluster.apply(map[string]any{"auto_mode": object{"enabled": true}})
	e.Expect(e.eks("GET", "/clusters/demo", "")).To(ContainSubstring(`"computeConfig":{"enabled":true`))
	e.Expect(e.resources()).To(ContainElement(HaveSuffix(":role/demo-" + region + "-auto-node")))

	cluster.write(map[string]any{"auto_mode": nil})
	out, code := cluster.try("apply", "-auto-approve", "-input=false", "-no-color")
	e.Expect(code).To(Equal(1), out)
	e.Expect(strings.Join(strings.Fields(out), " ")).To(ContainSubstring("EKS Auto Mode is still enabled"))

	cluster.apply(map[string]any{"auto_mode": object{"enabled": false}})
	e.Expect(e.eks("GET", "/clusters/demo", "")).To(ContainSubstring(`"computeConfig":{"enabled":false`))
	cluster.apply(map[string]any{"auto_mode": nil})
	e.Expect(e.resources()).NotTo(ContainElement(And(HavePrefix("iam "), HaveSuffix("-auto-node"))))
	cluster.destroy()
	vpc.destroy()
	e.Expect(e.resources()).To(Equal(before))
}

// The permissions of CAPT are created and destroyed like any module.
func TestCAPTIAM_isCreatedChangedAndDestroyed(t *testing.T) {
	needsEmulator(t)
	e := startEmulator(t)
	before := e.resources()
	iam := e.module("capt-iam", object{"trusted_principal_arns": []string{"arn:aws:iam::123456789012:role/management"}})
	iam.apply(nil)
	e.Expect(output[string](iam, "role_arn")).To(HaveSuffix(":role/capt"))
	iam.apply(object{"regions": []string{region}, "permissions_boundary_arn": "arn:aws:iam::aws:policy/AdministratorAccess"})
	iam.destroy()
	e.Expect(e.resources()).To(Equal(before))
}

// Without the queue, because its deletion takes the provider minutes.
func TestEKS_onFargateIsCreatedChangedAndDestroyed(t *testing.T) {
	needsEmulator(t)
	e := startEmulator(t)
	empty := e.resources()
	vpc := e.network("demo")
	cluster := e.module("eks", object{
		"cluster_name": "demo", "kubernetes_version": "1.33", "compute": "Fargate", "karpenter_interruption_queue": false,
		"vpc_id": output[string](vpc, "vpc_id"), "subnet_ids": output[[]string](vpc, "private_subnets"),
		"endpoint_public_access": true, "endpoint_public_access_cidrs": []string{"203.0.113.0/24"}, "deletion_protection": true,
	})
	cluster.apply(nil)
	profiles := output[[]string](cluster, "fargate_profile_names")
	e.Expect(profiles).To(ContainElement("coredns"))

	// A zone is added. CAPT keeps the subnets of the control plane and of its compute: EKS
	// accepts no other zones of a control plane, and a profile with other subnets is another
	// one, without which its pods are deleted.
	created := e.profileARNs("demo", profiles)
	before := output[[]string](vpc, "private_subnets")
	vpc.apply(object{"azs": []string{region + "a", region + "b", region + "c"}})
	cluster.apply(object{
		"subnet_ids": output[[]string](vpc, "private_subnets"), "control_plane_subnet_ids": before, "compute_subnet_ids": before,
		"tags": object{"stage": "two"}, "endpoint_public_access_cidrs": []string{"198.51.100.0/24"},
		"node_groups": object{"later": object{"availability_zones": []string{region + "c"}}},
	})
	e.Expect(output[[]string](cluster, "fargate_profile_names")).To(Equal(profiles))
	e.Expect(output[map[string]string](cluster, "node_group_names")).To(HaveKey("later"), "its zone has a subnet")
	e.Expect(e.profileARNs("demo", profiles)).To(Equal(created), "no profile is replaced")
	out, code := cluster.try("destroy", "-auto-approve", "-input=false", "-no-color", "-target=module.cluster.aws_eks_cluster.this")
	e.Expect(code).To(Equal(1), "a protected cluster is not deleted:\n%s", out)
	e.Expect(out).To(ContainSubstring("deletion protection"))

	cluster.apply(object{"deletion_protection": false})
	cluster.destroy()
	vpc.destroy()
	e.Expect(e.resources()).To(Equal(empty))
}

// profileARNs returns the ARNs of Fargate profiles. A replaced one has another.
func (e *emulator) profileARNs(cluster string, names []string) []string {
	e.t.Helper()
	var arns []string
	for _, name := range names {
		var found struct {
			FargateProfile struct{ FargateProfileARN string }
		}
		e.Expect(json.Unmarshal([]byte(e.eks("GET", "/clusters/"+cluster+"/fargate-profiles/"+name, "")), &found)).To(Succeed())
		arns = append(arns, found.FargateProfile.FargateProfileARN)
	}
	return arns
}

// Nodes join after the cluster: its creation must not wait for them.
func TestEKS_withoutComputeGetsCoreDNSWithItsFirstNodes(t *testing.T) {
	needsEmulator(t)
	e := startEmulator(t)
	vpc := e.network("demo")
	subnets := output[[]string](vpc, "private_subnets")
	cluster := e.module("eks", object{
		"cluster_name": "demo", "kubernetes_version": "1.33", "compute": "None", "nodes_ready": false, "karpenter_interruption_queue": false,
		"vpc_id": output[string](vpc, "vpc_id"), "subnet_ids": subnets,
	})
	cluster.apply(nil)
	e.Expect(output[map[string]string](cluster, "cluster_addons")).To(And(HaveKey("vpc-cni"), Not(HaveKey("coredns"))))

	e.module("node-group", object{
		"name": "workers", "cluster_name": "demo", "subnet_ids": subnets, "security_group_ids": output[[]string](cluster, "security_group_ids"),
	}).apply(nil)
	cluster.apply(object{"nodes_ready": true})
	e.Expect(output[map[string]string](cluster, "cluster_addons")).To(HaveKey("coredns"))
}

func TestNodeGroup_isCreatedChangedAndDestroyed(t *testing.T) {
	needsEmulator(t)
	e := startEmulator(t)
	before := e.resources()
	vpc := e.network("demo")
	subnets := output[[]string](vpc, "private_subnets")
	cluster := e.module("eks-cluster", object{
		"cluster_name": "demo", "kubernetes_version": "1.33", "compute_exists": false, "vpc_id": output[string](vpc, "vpc_id"), "subnet_ids": subnets,
	})
	cluster.apply(nil)
	group := e.module("node-group", object{
		"name": "workers", "cluster_name": "demo", "kubernetes_version": "1.33", "subnet_ids": subnets,
		"security_group_ids": []string{output[string](cluster, "node_security_group_id")},
		"ami_type":           "BOTTLEROCKET_ARM_64", "instance_types": []string{"m7g.large"}, "capacity_type": "Spot",
		"labels": object{"team": "a", "old": "x"}, "taints": []object{{"key": "a", "effect": "NoSchedule"}},
	})
	group.apply(nil)
	name := output[string](group, "node_group_name")

	group.apply(object{
		"min_size": 2, "max_size": 5, "labels": object{"team": "b"}, "tags": object{"stage": "two"},
		"taints": []object{{"key": "b", "effect": "NoExecute"}}, "node_repair": true, "metadata_hop_limit": 2,
	})
	e.Expect(output[string](group, "node_group_name")).To(Equal(name), "a change keeps the node group")

	group.destroy()
	cluster.destroy()
	vpc.destroy()
	e.Expect(e.resources()).To(Equal(before))
}

// Cluster Autoscaler changes the number of nodes at any time. A run that changes
// something else must not change it back.
func TestNodeGroup_keepsTheSizeOfAnAutoscaler(t *testing.T) {
	needsEmulator(t)
	e := startEmulator(t)
	vpc := e.network("demo")
	subnets := output[[]string](vpc, "private_subnets")
	e.module("eks-cluster", object{
		"cluster_name": "demo", "kubernetes_version": "1.33", "compute_exists": false, "vpc_id": output[string](vpc, "vpc_id"), "subnet_ids": subnets,
	}).apply(nil)
	group := e.module("node-group", object{
		"name": "workers", "cluster_name": "demo", "subnet_ids": subnets, "instance_types": []string{"m7g.large"},
		"availability_zones": []string{region + "b"}, "autoscaled": true, "min_size": 1, "max_size": 5, "desired_size": 2,
	})
	group.apply(nil)
	path := "/clusters/demo/node-groups/" + output[string](group, "node_group_name")
	e.Expect(output[map[string]string](group, "node_selector")).To(Equal(map[string]string{"eks.amazonaws.com/nodegroup": output[string](group, "node_group_name")}))
	type nodegroup struct {
		Nodegroup struct {
			AMIType       string
			Subnets       []string
			ScalingConfig struct{ DesiredSize int }
		}
	}
	describe := func() (found nodegroup) {
		e.Expect(json.Unmarshal([]byte(e.eks("GET", path, "")), &found)).To(Succeed())
		return found
	}
	e.Expect(describe().Nodegroup.ScalingConfig.DesiredSize).To(Equal(2))
	e.Expect(describe().Nodegroup.Subnets).To(Equal(subnets[1:]), "only the subnet of the zone")
	e.Expect(describe().Nodegroup.AMIType).To(Equal("AL2023_ARM_64_STANDARD"))

	e.eks("POST", path+"/update-config", `{"scalingConfig":{"desiredSize":4}}`)
	group.apply(object{"labels": object{"team": "a"}})
	e.Expect(describe().Nodegroup.ScalingConfig.DesiredSize).To(Equal(4))
	group.apply(object{"max_size": 3})
	e.Expect(describe().Nodegroup.ScalingConfig.DesiredSize).To(Equal(3), "the new maximum")
}

// machine prepares a machine with variables beside those that it needs.
func (e *emulator) machine(vars object) *root {
	e.t.Helper()
	subnet := e.create("subnetId", "DescribeSubnets", "Filter.1.Name", "availability-zone", "Filter.1.Value.1", region+"a")
	e.iam("CreateInstanceProfile", "InstanceProfileName", "nodes")
	all := object{
		"name": "node-1", "cluster_name": "demo", "kubernetes_version": "1.33", "instance_type": "m7g.large", "subnet_ids": []string{subnet},
		"security_group_ids": []string{e.create("groupId", "DescribeSecurityGroups")}, "instance_profile_name": "nodes",
		"cluster_endpoint": "https://demo", "cluster_certificate_authority_data": "Q0E=", "cluster_service_cidr": "172.20.0.0/16",
	}
	maps.Copy(all, vars)
	return e.module("machine", all)
}

// The EBS CSI driver attaches volumes of pods. They must not replace the instance.
func TestMachine_keepsItsInstanceWithAnAttachedVolume(t *testing.T) {
	needsEmulator(t)
	e := startEmulator(t)
	machine := e.machine(object{"os": "Bottlerocket"})
	machine.apply(nil)
	instance := output[string](machine, "instance_id")
	volume := e.create("volumeId", "CreateVolume", "Size", "10", "VolumeType", "gp3", "AvailabilityZone", region+"a")
	e.accepts("AttachVolume", "VolumeId", volume, "InstanceId", instance, "Device", "/dev/xvdba")
	machine.apply(object{"tags": object{"stage": "two"}})
	e.Expect(output[string](machine, "instance_id")).To(Equal(instance))
}

// AWS creates a request for each instance on spot, which the provider reads and cancels.
func TestMachine_onSpotIsCreatedChangedAndDestroyed(t *testing.T) {
	needsEmulator(t)
	e := startEmulator(t)
	machine := e.machine(object{"capacity_type": "Spot"})
	before := e.resources()
	machine.apply(nil)
	instance := output[string](machine, "instance_id")
	machine.apply(object{"tags": object{"stage": "two"}})
	e.Expect(output[string](machine, "instance_id")).To(Equal(instance))
	machine.destroy()
	e.Expect(e.resources()).To(Equal(before))
}

// The role belongs to the account: it is created once, reused and never deleted.
func TestSpotRole_isCreatedImportedAndNeverDestroyed(t *testing.T) {
	needsEmulator(t)
	e := startEmulator(t)
	const arn = "arn:aws:iam::123456789012:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot"
	first := e.module("spot-role", object{"tags": object{"stage": "one"}})
	first.apply(nil)
	e.Expect(output[string](first, "role_arn")).To(Equal(arn))
	first.apply(object{"tags": object{"stage": "two"}})

	second := e.module("spot-role", object{})
	second.apply(nil)
	e.Expect(output[string](second, "role_arn")).To(Equal(arn))

	out, code := first.try("destroy", "-auto-approve", "-input=false", "-no-color")
	e.Expect(code).To(Equal(1))
	e.Expect(out).To(ContainSubstring("prevent_destroy"))
	e.Expect(e.resources()).To(ContainElement("iam " + arn))
}

// The inventory shows created resources, so the comparisons of the other tests are
// meaningful.
func TestEmulator_listsResources(t *testing.T) {
	needsEmulator(t)
	e := startEmulator(t)
	before := e.resources()
	e.call(query{service: "iam", action: "CreateRole", form: url.Values{"Version": {"2010-05-08"}, "RoleName": {"new"}, "AssumeRolePolicyDocument": {policy(t)}}})
	after := e.resources()
	e.Expect(slices.DeleteFunc(after, func(name string) bool { return slices.Contains(before, name) })).
		To(Equal([]string{"iam arn:aws:iam::123456789012:role/new"}))
}

func policy(t *testing.T) string {
	text, err := json.Marshal(object{"Version": "2012-10-17", "Statement": []object{{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": object{"Service": "ec2.amazonaws.com"}}}})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(text)
}
