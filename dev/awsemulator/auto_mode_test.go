package main

import (
	"strings"
	"testing"
)

const autoCluster = `{"name":"auto","version":"1.34","bootstrapSelfManagedAddons":false,"accessConfig":{"authenticationMode":"API"},` +
	`"resourcesVpcConfig":{"subnetIds":["subnet-a","subnet-b"]},` +
	`"computeConfig":{"enabled":true,"nodePools":["system"],"nodeRoleArn":"arn:aws:iam::123456789012:role/auto"},` +
	`"kubernetesNetworkConfig":{"elasticLoadBalancing":{"enabled":true}},"storageConfig":{"blockStorage":{"enabled":true}}}`

func TestAutoMode_isEnabledAsAWhole(t *testing.T) {
	for name, change := range map[string][3]string{
		"no storage":          {`"blockStorage":{"enabled":true}`, `"blockStorage":{"enabled":false}`, "fully enabled or fully disabled"},
		"no load balancing":   {`"elasticLoadBalancing":{"enabled":true}`, `"elasticLoadBalancing":{"enabled":false}`, "fully enabled or fully disabled"},
		"no compute":          {`"computeConfig":{"enabled":true,`, `"computeConfig":{"enabled":false,`, "fully enabled or fully disabled"},
		"no access entries":   {`"authenticationMode":"API"`, `"authenticationMode":"CONFIG_MAP"`, "authentication mode"},
		"self-managed addons": {`"bootstrapSelfManagedAddons":false`, `"bootstrapSelfManagedAddons":true`, "bootstrapSelfManagedAddons"},
		"a role alone":        {`"nodePools":["system"],`, ``, "nodePool value(s) must be provided"},
		"pools alone":         {`,"nodeRoleArn":"arn:aws:iam::123456789012:role/auto"`, ``, "nodePool value(s) must be provided"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(autoCluster, change[0], change[1], 1)
			if changed == autoCluster {
				t.Fatal("nothing changed")
			}
			newHarness(t).must(400, change[2], "POST", "/clusters", changed)
		})
	}
}

func TestAutoMode_isDisabled(t *testing.T) {
	r := newHarness(t)
	r.must(200, "", "POST", "/clusters", autoCluster)
	r.settle()
	r.must(400, "kubernetesNetworkConfig is required", "POST", "/clusters/auto/update-config", `{"computeConfig":{"enabled":false},"storageConfig":{"blockStorage":{"enabled":false}}}`)
	r.must(400, "fully enabled or fully disabled", "POST", "/clusters/auto/update-config",
		`{"computeConfig":{"enabled":false},"kubernetesNetworkConfig":{"elasticLoadBalancing":{"enabled":false}},"storageConfig":{"blockStorage":{"enabled":true}}}`)
	r.must(200, "AutoModeUpdate", "POST", "/clusters/auto/update-config",
		`{"computeConfig":{"enabled":false},"kubernetesNetworkConfig":{"elasticLoadBalancing":{"enabled":false}},"storageConfig":{"blockStorage":{"enabled":false}}}`)
	r.settle()
	r.must(200, `"computeConfig":{"enabled":false}`, "GET", "/clusters/auto", "")
}

func TestCluster_ofIPv6(t *testing.T) {
	const cluster = `{"name":"six","version":"1.34","resourcesVpcConfig":{"subnetIds":["subnet-a","subnet-b"]},"kubernetesNetworkConfig":{"ipFamily":"ipv6"}}`
	r := newHarness(t)
	r.must(400, "IPv6", "POST", "/clusters", cluster)
	const subnet = `<vpcId>vpc-1</vpcId><assignIpv6AddressOnCreation>true</assignIpv6AddressOnCreation><ipv6CidrBlockAssociationSet><item><ipv6CidrBlock>2001:db8::/64</ipv6CidrBlock></item></ipv6CidrBlockAssociationSet>`
	r.answers = map[string]string{"DescribeSubnets": `<R><subnetSet><item>` + subnet + `<availabilityZone>a</availabilityZone></item><item>` + subnet + `<availabilityZone>b</availabilityZone></item></subnetSet></R>`}
	r.must(400, "serviceIpv4Cidr", "POST", "/clusters", strings.Replace(cluster, `"ipFamily":"ipv6"`, `"ipFamily":"ipv6","serviceIpv4Cidr":"172.20.0.0/16"`, 1))
	r.must(200, `"serviceIpv6Cidr":"fd`, "POST", "/clusters", cluster)
}
