package main

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestEKS_rejectsAnImageOfAnotherArchitecture(t *testing.T) {
	r := newCluster(t)
	r.answers = map[string]string{"DescribeInstanceTypes": `<R><instanceTypeSet><item><instanceType>m7g.large</instanceType><processorInfo><supportedArchitectures>` +
		`<item>arm64</item></supportedArchitectures></processorInfo></item></instanceTypeSet></R>`}
	const group = `{"nodegroupName":"a","instanceTypes":["m7g.large"]`
	r.must(400, "[m7g.large] is not a valid instance type for requested amiType AL2023_x86_64_STANDARD", "POST", "/clusters/demo/node-groups", group+`}`)
	r.must(200, "CREATING", "POST", "/clusters/demo/node-groups", group+`,"amiType":"AL2023_ARM_64_STANDARD"}`)
}

func TestEKS_rejectsAReleaseOfAnotherVersion(t *testing.T) {
	r := newCluster(t)
	group := func(name, release string) string {
		return `{"nodegroupName":"` + name + `","releaseVersion":"` + release + `"}`
	}
	r.must(400, "not valid for kubernetes version 1.32", "POST", "/clusters/demo/node-groups", group("a", "1.33.0-20260101"))
	r.must(200, "CREATING", "POST", "/clusters/demo/node-groups", group("a", "1.32.0-20251201"))
	r.settle()
	r.must(400, "not valid for kubernetes version 1.32", "POST", "/clusters/demo/node-groups/a/update-version", `{"releaseVersion":"1.33.0-20260101"}`)
	r.must(200, "VersionUpdate", "POST", "/clusters/demo/node-groups/a/update-version", `{"releaseVersion":"1.32.0-20260101"}`)
}

func TestSSM_namesTheNewestReleases(t *testing.T) {
	r := newHarness(t)
	for name, want := range map[string]string{
		"eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/release_version": `"1.33.0-20260101"`,
		"bottlerocket/aws-k8s-1.33-fips/arm64/latest/image_version":                            `"1.50.0-5d9ac849"`,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL, strings.NewReader(`{"Name":"/aws/service/`+name+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Amz-Target", "AmazonSSM.GetParameter")
		request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=k/20260101/eu-central-1/ssm/aws4_request, SignedHeaders=host, Signature=s")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		if text, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(text), `"Value":`+want) {
			t.Errorf("%s: got %s %v, want %s", name, text, err, want)
		}
	}
}

func TestEKS_addonWaitsForNodes(t *testing.T) {
	r := newCluster(t)
	r.must(200, "CREATING", "POST", "/clusters/demo/addons", `{"addonName":"vpc-cni"}`)
	r.must(200, "CREATING", "POST", "/clusters/demo/addons", `{"addonName":"coredns"}`)
	r.settle()
	r.must(200, `"status":"ACTIVE"`, "GET", "/clusters/demo/addons/vpc-cni", "")
	r.must(200, `"status":"DEGRADED"`, "GET", "/clusters/demo/addons/coredns", "")
	r.must(200, "CREATING", "POST", "/clusters/demo/node-groups", `{"nodegroupName":"empty","scalingConfig":{"desiredSize":0}}`)
	r.settle()
	r.must(200, `"status":"DEGRADED"`, "GET", "/clusters/demo/addons/coredns", "")
	r.must(200, "CREATING", "POST", "/clusters/demo/node-groups", `{"subnets": ["subnet-1"], "nodegroupName":"nodes","scalingConfig":{"desiredSize":1}}`)
	r.must(200, `"status":"DEGRADED"`, "GET", "/clusters/demo/addons/coredns", "")
	r.settle()
	r.must(200, `"status":"ACTIVE"`, "GET", "/clusters/demo/addons/coredns", "")
}

func TestEKS_addonWithoutNodesFails(t *testing.T) {
	r := newCluster(t)
	r.must(200, "CREATING", "POST", "/clusters/demo/addons", `{"addonName":"coredns"}`)
	r.now = r.now.Add(2 * r.eks.addonTimeout)
	r.must(200, `"status":"CREATE_FAILED"`, "GET", "/clusters/demo/addons/coredns", "")
	r.must(200, "InsufficientNumberOfReplicas", "GET", "/clusters/demo/addons/coredns", "")
}

func TestEKS_fargateRunsOnlyPodsThatAreYoungerThanTheirProfile(t *testing.T) {
	const profile = `{"fargateProfileName":"coredns","selectors":[{"namespace":"kube-system","labels":{"k8s-app":"kube-dns"}}]}`
	r := newCluster(t)
	r.must(200, "CREATING", "POST", "/clusters/demo/fargate-profiles", profile)
	r.must(200, "CREATING", "POST", "/clusters/demo/addons", `{"addonName":"coredns"}`)
	r.settle()
	r.must(200, `"status":"ACTIVE"`, "GET", "/clusters/demo/fargate-profiles/coredns", "")
	r.must(200, `"status":"DEGRADED"`, "GET", "/clusters/demo/addons/coredns", "")
	r.must(200, "", "DELETE", "/clusters/demo/addons/coredns", "")
	r.settle()
	r.must(200, "CREATING", "POST", "/clusters/demo/addons", `{"addonName":"metrics-server"}`)
	r.must(200, "CREATING", "POST", "/clusters/demo/addons", `{"addonName":"coredns"}`)
	r.settle()
	r.must(200, `"status":"ACTIVE"`, "GET", "/clusters/demo/addons/coredns", "")
	r.must(200, `"status":"DEGRADED"`, "GET", "/clusters/demo/addons/metrics-server", "")
}

func TestEKS_changesOneFargateProfileAtATime(t *testing.T) {
	r := newCluster(t)
	r.must(200, "CREATING", "POST", "/clusters/demo/fargate-profiles", `{"fargateProfileName":"a"}`)
	r.must(409, "CREATING", "POST", "/clusters/demo/fargate-profiles", `{"fargateProfileName":"b"}`)
	r.settle()
	r.must(409, "exists already", "POST", "/clusters/demo/fargate-profiles", `{"fargateProfileName":"a"}`)
	r.must(200, "CREATING", "POST", "/clusters/demo/fargate-profiles", `{"fargateProfileName":"b"}`)
	r.must(409, "CREATING", "DELETE", "/clusters/demo/fargate-profiles/a", "")
	r.settle()
	r.must(200, "DELETING", "DELETE", "/clusters/demo/fargate-profiles/a", "")
	r.must(409, "DELETING", "DELETE", "/clusters/demo/fargate-profiles/b", "")
	r.must(409, "DELETING", "POST", "/clusters/demo/fargate-profiles", `{"fargateProfileName":"a"}`)
}

func TestEKS_rejectsFargateInAPublicSubnet(t *testing.T) {
	r := newCluster(t)
	r.answers = map[string]string{"DescribeRouteTables": `<R><routeTableSet>` +
		`<item><associationSet><item><subnetId>subnet-a</subnetId></item></associationSet><routeSet><item><natGatewayId>nat-1</natGatewayId></item></routeSet></item>` +
		`<item><associationSet><item><subnetId>subnet-b</subnetId></item></associationSet><routeSet><item><gatewayId>igw-1</gatewayId></item></routeSet></item>` +
		`</routeTableSet></R>`}
	r.must(400, "Subnet subnet-b provided in Fargate Profile is not a private subnet", "POST", "/clusters/demo/fargate-profiles", `{"fargateProfileName":"a","subnets":["subnet-a","subnet-b"]}`)
	r.must(200, "CREATING", "POST", "/clusters/demo/fargate-profiles", `{"fargateProfileName":"a","subnets":["subnet-a"]}`)
}

func TestEKS_rejectsAControlPlaneInOneZone(t *testing.T) {
	r := newHarness(t)
	r.answers = map[string]string{"DescribeSubnets": `<R><subnetSet><item><vpcId>vpc-1</vpcId><availabilityZone>a</availabilityZone></item>` +
		`<item><vpcId>vpc-1</vpcId><availabilityZone>a</availabilityZone></item></subnetSet></R>`}
	r.must(400, "at least two different AZs", "POST", "/clusters", demoCluster)
}

func TestEKS_rejectsAZoneWithoutControlPlanes(t *testing.T) {
	r := newHarness(t)
	subnets := func(id string) string {
		return `<R><subnetSet><item><vpcId>vpc-1</vpcId><availabilityZone>a</availabilityZone><availabilityZoneId>use1-az1</availabilityZoneId></item>` +
			`<item><vpcId>vpc-1</vpcId><availabilityZone>b</availabilityZone><availabilityZoneId>` + id + `</availabilityZoneId></item></subnetSet></R>`
	}
	r.answers = map[string]string{"DescribeSubnets": subnets("use1-az3")}
	r.must(400, "use1-az3, the targeted availability zone", "POST", "/clusters", demoCluster)
	r.answers = map[string]string{"DescribeSubnets": subnets("use1-az2")}
	r.must(200, "CREATING", "POST", "/clusters", demoCluster)
}

func TestEKS_keepsTheZonesOfAControlPlane(t *testing.T) {
	r := newHarness(t)
	// The last letter of a subnet is its zone.
	r.respond = func(form url.Values) string {
		if form.Get("Action") != "DescribeSubnets" {
			return ""
		}
		answer := "<R><subnetSet>"
		for _, id := range listOf(form, "SubnetId") {
			answer += "<item><vpcId>vpc-1</vpcId><availabilityZone>" + id[len(id)-1:] + "</availabilityZone></item>"
		}
		return answer + "</subnetSet></R>"
	}
	r.must(200, "CREATING", "POST", "/clusters", demoCluster)
	r.settle()
	update := func(subnets string) string { return `{"resourcesVpcConfig":{"subnetIds":[` + subnets + `]}}` }
	r.must(400, "same set of AZs", "POST", "/clusters/demo/update-config", update(`"subnet-a","subnet-b","subnet-c"`))
	r.must(200, "VpcConfigUpdate", "POST", "/clusters/demo/update-config", update(`"subnet-a","subnet-2b"`))
}

func TestEKS_rejectsSizesOfNodeGroups(t *testing.T) {
	r := newCluster(t)
	group := func(name, size string) string {
		return `{"nodegroupName":"` + name + `","subnets":["subnet-a"],"scalingConfig":{` + size + `}}`
	}
	r.must(400, "desired capacity 5 can't be greater than max size 3", "POST", "/clusters/demo/node-groups", group("a", `"minSize":1,"maxSize":3,"desiredSize":5`))
	r.must(200, "CREATING", "POST", "/clusters/demo/node-groups", group("a", `"minSize":1,"maxSize":3,"desiredSize":2`))
	r.settle()
	r.must(400, "Minimum capacity 3 can't be greater than desired size 2", "POST", "/clusters/demo/node-groups/a/update-config", `{"scalingConfig":{"minSize":3}}`)
	r.must(200, "ConfigUpdate", "POST", "/clusters/demo/node-groups/a/update-config", `{"scalingConfig":{"minSize":3,"desiredSize":3}}`)
}
