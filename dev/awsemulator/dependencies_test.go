package main

import (
	"net/url"
	"slices"
	"strings"
	"testing"
)

// actions returns the actions of EC2 that moto was asked for.
func (r *harness) actions() []string {
	var names []string
	for _, form := range r.asked {
		names = append(names, form.Get("Action"))
	}
	return names
}

func TestDependencies_areRespectedAsByEC2(t *testing.T) {
	const (
		plain     = `<R><networkInterfaceSet><item><networkInterfaceId>eni-1</networkInterfaceId><subnetId>subnet-1</subnetId><vpcId>vpc-1</vpcId><groupSet><item><groupId>sg-1</groupId></item></groupSet></item></networkInterfaceSet></R>`
		public    = `<R><networkInterfaceSet><item><networkInterfaceId>eni-1</networkInterfaceId><vpcId>vpc-1</vpcId><association><publicIp>203.0.113.1</publicIp></association></item></networkInterfaceSet></R>`
		endpoints = `<R><vpcEndpointSet><item><vpcId>vpc-1</vpcId><state>available</state><groupSet><item><groupId>sg-1</groupId></item></groupSet></item></vpcEndpointSet></R>`
	)
	group := url.Values{"Action": {"DeleteSecurityGroup"}, "GroupId": {"sg-1"}}
	subnet := url.Values{"Action": {"DeleteSubnet"}, "SubnetId": {"subnet-1"}}
	gateway := url.Values{"Action": {"DetachInternetGateway"}, "InternetGatewayId": {"igw-1"}, "VpcId": {"vpc-1"}}
	vpc := url.Values{"Action": {"DeleteVpc"}, "VpcId": {"vpc-1"}}
	rule := func(of, to string) string {
		return `<R><securityGroupRuleSet><item><groupId>` + of + `</groupId><referencedGroupInfo><groupId>` + to + `</groupId></referencedGroupInfo></item></securityGroupRuleSet></R>`
	}
	for name, test := range map[string]struct {
		call    url.Values
		answers map[string]string
		refused string
	}{
		"group that nothing uses":         {call: group},
		"group of an interface":           {call: group, answers: map[string]string{"DescribeNetworkInterfaces": plain}, refused: "resource sg-1 has a dependent object"},
		"group of an endpoint":            {call: group, answers: map[string]string{"DescribeVpcEndpoints": endpoints}, refused: "resource sg-1 has a dependent object"},
		"group that another refers to":    {call: group, answers: map[string]string{"DescribeSecurityGroupRules": rule("sg-2", "sg-1")}, refused: "resource sg-1 has a dependent object"},
		"group that refers to itself":     {call: group, answers: map[string]string{"DescribeSecurityGroupRules": rule("sg-1", "sg-1")}},
		"group that refers to another":    {call: group, answers: map[string]string{"DescribeSecurityGroupRules": rule("sg-1", "sg-2")}},
		"empty subnet":                    {call: subnet},
		"subnet with an interface":        {call: subnet, answers: map[string]string{"DescribeNetworkInterfaces": plain}, refused: "The subnet 'subnet-1' has dependencies"},
		"gateway without addresses":       {call: gateway, answers: map[string]string{"DescribeNetworkInterfaces": plain}},
		"gateway with a public interface": {call: gateway, answers: map[string]string{"DescribeNetworkInterfaces": public}, refused: "some mapped public address(es)"},
		"gateway with an elastic address": {call: gateway, refused: "some mapped public address(es)", answers: map[string]string{
			"DescribeNetworkInterfaces": plain, "DescribeAddresses": `<R><addressesSet><item><networkInterfaceId>eni-1</networkInterfaceId></item></addressesSet></R>`,
		}},
		"empty VPC":            {call: vpc},
		"VPC with an endpoint": {call: vpc, answers: map[string]string{"DescribeVpcEndpoints": endpoints}, refused: "The vpc 'vpc-1' has dependencies"},
		"VPC with a deleted endpoint": {call: vpc, answers: map[string]string{
			"DescribeVpcEndpoints": strings.Replace(endpoints, "available", "deleted", 1),
		}},
		"VPC with a gateway": {call: vpc, refused: "The vpc 'vpc-1' has dependencies", answers: map[string]string{
			"DescribeInternetGateways": `<R><internetGatewaySet><item><attachmentSet><item><vpcId>vpc-1</vpcId></item></attachmentSet></item></internetGatewaySet></R>`,
		}},
		"VPC with a group": {call: vpc, refused: "The vpc 'vpc-1' has dependencies", answers: map[string]string{
			"DescribeSecurityGroups": `<R><securityGroupInfo><item><vpcId>vpc-1</vpcId><groupName>nodes</groupName></item></securityGroupInfo></R>`,
		}},
		"VPC with its default group": {call: vpc, answers: map[string]string{
			"DescribeSecurityGroups": `<R><securityGroupInfo><item><vpcId>vpc-1</vpcId><groupName>default</groupName></item></securityGroupInfo></R>`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newHarness(t)
			r.answers = test.answers
			status, text := r.do("ec2", "POST", "/", test.call.Encode())
			forwarded := slices.Contains(r.actions(), test.call.Get("Action"))
			switch {
			case test.refused == "" && (status != 200 || !forwarded):
				t.Fatalf("got %d %s, want an accepted call", status, text)
			case test.refused != "" && (status != 400 || forwarded || !strings.Contains(text, "<Code>DependencyViolation</Code>") || !strings.Contains(unescape(text), test.refused)):
				t.Fatalf("got %d %s (forwarded: %v), want DependencyViolation with %q", status, text, forwarded, test.refused)
			}
		})
	}
}

// Else a security group of a control plane could be deleted before the control plane.
func TestDependencies_interfacesOfControlPlanesAreInUse(t *testing.T) {
	r := newHarness(t)
	r.answers = map[string]string{"DescribeNetworkInterfaces": `<R><networkInterfaceSet><item><networkInterfaceId>eni-1</networkInterfaceId><description>Amazon EKS demo</description></item>` +
		`<item><networkInterfaceId>eni-2</networkInterfaceId><description>of a user</description></item></networkInterfaceSet></R>`}
	if status, text := r.do("ec2", "POST", "/", "Action=DeleteNetworkInterface&NetworkInterfaceId=eni-1"); status != 400 || !strings.Contains(text, "is currently in use") {
		t.Fatalf("got %d %s, want an interface that is in use", status, text)
	}
	if status, text := r.do("ec2", "POST", "/", "Action=DeleteNetworkInterface&NetworkInterfaceId=eni-2"); status != 200 {
		t.Fatalf("got %d %s, want an accepted call", status, text)
	}
}

func unescape(text string) string { return strings.ReplaceAll(text, "&#39;", "'") }

func TestDependencies_deletedGatewayReleasesItsInterface(t *testing.T) {
	r := newHarness(t)
	r.answers = map[string]string{"DescribeNatGateways": `<R><natGatewaySet><item><natGatewayAddressSet><item><networkInterfaceId>eni-1</networkInterfaceId>` +
		`<associationId>eipassoc-1</associationId></item></natGatewayAddressSet></item></natGatewaySet></R>`}
	r.do("ec2", "POST", "/", "Action=DeleteNatGateway&NatGatewayId=nat-1")
	want := []string{"DeleteNatGateway", "DescribeNatGateways", "DisassociateAddress", "DeleteNetworkInterface"}
	if got := r.actions(); !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestDependencies_terminatedInstanceReleasesItsInterfaces(t *testing.T) {
	r := newHarness(t)
	attached := func(id, instance, device string) string {
		return `<item><networkInterfaceId>` + id + `</networkInterfaceId><attachment><instanceId>` + instance + `</instanceId><attachmentId>attach-` + id +
			`</attachmentId><deviceIndex>` + device + `</deviceIndex></attachment></item>`
	}
	r.answers = map[string]string{"DescribeNetworkInterfaces": `<R><networkInterfaceSet>` +
		attached("eni-first", "i-1", "0") + attached("eni-second", "i-1", "1") + attached("eni-other", "i-2", "0") + `</networkInterfaceSet></R>`}
	r.do("ec2", "POST", "/", "Action=TerminateInstances&InstanceId.1=i-1")
	var deleted, detached []string
	for _, form := range r.asked {
		switch form.Get("Action") {
		case "DeleteNetworkInterface":
			deleted = append(deleted, form.Get("NetworkInterfaceId"))
		case "DetachNetworkInterface":
			detached = append(detached, form.Get("AttachmentId"))
		}
	}
	if !slices.Equal(deleted, []string{"eni-first"}) || !slices.Equal(detached, []string{"attach-eni-second"}) {
		t.Fatalf("deleted %v and detached %v", deleted, detached)
	}
}

func TestEKS_leavesItsSecurityGroupThatIsInUse(t *testing.T) {
	for name, test := range map[string]struct {
		interfaces string
		deleted    bool
	}{
		"its own interface": {`<item><networkInterfaceId>eni-1</networkInterfaceId><description>Amazon EKS demo</description></item>`, true},
		"another interface": {`<item><networkInterfaceId>eni-1</networkInterfaceId><description>aws-K8S-i-1</description><groupSet><item><groupId>sg-1</groupId></item></groupSet></item>`, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newCluster(t)
			r.answers = map[string]string{"DescribeNetworkInterfaces": `<R><networkInterfaceSet>` + test.interfaces + `</networkInterfaceSet></R>`}
			r.must(200, "DELETING", "DELETE", "/clusters/demo", "")
			if got := slices.Contains(r.actions(), "DeleteSecurityGroup"); got != test.deleted {
				t.Fatalf("the group was deleted: %v, want %v", got, test.deleted)
			}
			if got := slices.Contains(r.actions(), "DeleteNetworkInterface"); got != test.deleted {
				t.Fatalf("the interface was deleted: %v, want %v", got, test.deleted)
			}
		})
	}
}
