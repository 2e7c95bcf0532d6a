package aws

import (
	"net/http"
	"net/url"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"
)

// ec2 calls EC2 with pairs of parameters and values.
func (e *emulator) ec2(action string, pairs ...string) (status int, text string) {
	e.t.Helper()
	form := url.Values{"Version": {"2016-11-15"}}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return e.attempt(query{service: "ec2", action: action, form: form})
}

// eks calls EKS and returns the response.
func (e *emulator) eks(method, path, body string) string {
	e.t.Helper()
	status, text := e.request(method, path, "eks", "application/json", "", body)
	e.Expect(status).To(Equal(http.StatusOK), "%s %s: %s", method, path, text)
	return text
}

// create calls EC2 and returns the first element of the response with a name, which is
// the ID of what was created.
func (e *emulator) create(element, action string, pairs ...string) string {
	e.t.Helper()
	status, text := e.ec2(action, pairs...)
	e.Expect(status).To(Equal(http.StatusOK), "%s: %s", action, text)
	found := regexp.MustCompile("<" + element + ">([^<]+)<").FindStringSubmatch(text)
	e.Expect(found).NotTo(BeNil(), "%s: %s", action, text)
	return found[1]
}

func (e *emulator) accepts(action string, pairs ...string) {
	e.t.Helper()
	status, text := e.ec2(action, pairs...)
	e.Expect(status).To(Equal(http.StatusOK), "%s: %s", action, text)
}

func (e *emulator) refuses(action string, pairs ...string) {
	e.t.Helper()
	status, text := e.ec2(action, pairs...)
	e.Expect(status).To(Equal(http.StatusBadRequest), "%s: %s", action, text)
	e.Expect(text).To(ContainSubstring("<Code>DependencyViolation</Code>"))
}

// Without these rules, a test could not see a resource that is left behind and blocks
// the deletion of another.
func TestEmulator_keepsWhatOthersDependOn(t *testing.T) {
	needsEmulator(t)
	e := startEmulator(t)
	before := e.resources()
	vpc := e.create("vpcId", "CreateVpc", "CidrBlock", "10.0.0.0/16")
	subnet := e.create("subnetId", "CreateSubnet", "VpcId", vpc, "CidrBlock", "10.0.0.0/24")
	group := e.create("groupId", "CreateSecurityGroup", "VpcId", vpc, "GroupName", "nodes", "GroupDescription", "nodes")
	other := e.create("groupId", "CreateSecurityGroup", "VpcId", vpc, "GroupName", "balancer", "GroupDescription", "balancer")
	e.accepts("AuthorizeSecurityGroupIngress", "GroupId", group, "IpPermissions.1.IpProtocol", "-1", "IpPermissions.1.Groups.1.GroupId", other)
	e.refuses("DeleteSecurityGroup", "GroupId", other)
	e.accepts("RevokeSecurityGroupIngress", "GroupId", group, "IpPermissions.1.IpProtocol", "-1", "IpPermissions.1.Groups.1.GroupId", other)
	e.accepts("DeleteSecurityGroup", "GroupId", other)

	leftover := e.create("networkInterfaceId", "CreateNetworkInterface", "SubnetId", subnet, "SecurityGroupId.1", group, "Description", "aws-K8S-i-0123456789abcdef0")
	e.refuses("DeleteSecurityGroup", "GroupId", group)
	e.refuses("DeleteSubnet", "SubnetId", subnet)
	e.accepts("DeleteNetworkInterface", "NetworkInterfaceId", leftover)

	instance := e.create("instanceId", "RunInstances", "ImageId", "ami-12c6146b", "MinCount", "1", "MaxCount", "1", "SubnetId", subnet, "SecurityGroupId.1", group)
	e.refuses("DeleteSecurityGroup", "GroupId", group)
	e.refuses("DeleteSubnet", "SubnetId", subnet)
	second := e.create("networkInterfaceId", "CreateNetworkInterface", "SubnetId", subnet, "SecurityGroupId.1", group)
	e.accepts("AttachNetworkInterface", "InstanceId", instance, "NetworkInterfaceId", second, "DeviceIndex", "1")
	e.accepts("TerminateInstances", "InstanceId.1", instance)
	e.refuses("DeleteSubnet", "SubnetId", subnet)
	e.accepts("DeleteNetworkInterface", "NetworkInterfaceId", second)

	endpoint := e.create("vpcEndpointId", "CreateVpcEndpoint", "VpcId", vpc, "ServiceName", "com.amazonaws."+region+".sts", "VpcEndpointType", "Interface",
		"SubnetId.1", subnet, "SecurityGroupId.1", group)
	e.refuses("DeleteSecurityGroup", "GroupId", group)
	e.refuses("DeleteSubnet", "SubnetId", subnet)
	e.accepts("DeleteVpcEndpoints", "VpcEndpointId.1", endpoint)

	gateway := e.create("internetGatewayId", "CreateInternetGateway")
	e.accepts("AttachInternetGateway", "InternetGatewayId", gateway, "VpcId", vpc)
	address := e.create("allocationId", "AllocateAddress", "Domain", "vpc")
	nat := e.create("natGatewayId", "CreateNatGateway", "SubnetId", subnet, "AllocationId", address)
	e.refuses("DetachInternetGateway", "InternetGatewayId", gateway, "VpcId", vpc)
	e.refuses("DeleteSubnet", "SubnetId", subnet)
	e.accepts("DeleteNatGateway", "NatGatewayId", nat)
	e.accepts("ReleaseAddress", "AllocationId", address)
	e.accepts("DeleteSubnet", "SubnetId", subnet)

	e.refuses("DeleteVpc", "VpcId", vpc)
	e.accepts("DetachInternetGateway", "InternetGatewayId", gateway, "VpcId", vpc)
	e.accepts("DeleteInternetGateway", "InternetGatewayId", gateway)
	e.refuses("DeleteVpc", "VpcId", vpc)
	e.accepts("DeleteSecurityGroup", "GroupId", group)
	e.accepts("DeleteVpc", "VpcId", vpc)
	e.Expect(e.resources()).To(Equal(before))
}
