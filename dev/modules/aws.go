package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
)

// fakeAWS is a fake of AWS that handles the few calls of the real AWS provider in a
// plan.
type fakeAWS struct {
	*httptest.Server

	mutex sync.Mutex
	// unknown are the calls that the fake does not implement.
	unknown []string
}

func newFakeAWS() *fakeAWS {
	fake := &fakeAWS{}
	fake.Server = httptest.NewServer(fake)
	return fake
}

// env returns the variables that make the provider call the fake.
func (f *fakeAWS) env() []string {
	return []string{"AWS_ENDPOINT_URL=" + f.URL, "AWS_ACCESS_KEY_ID=fake", "AWS_SECRET_ACCESS_KEY=fake"}
}

// fakeProvider is the provider configuration for the fake.
const fakeProvider = `provider "aws" {
  region                      = "eu-central-1"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_region_validation      = true
  skip_requesting_account_id  = true
}
`

// graviton matches instance types with arm64.
var graviton = regexp.MustCompile(`^[a-z]+[0-9]+g[a-z]*\.`)

// ServeHTTP implements http.Handler.
func (f *fakeAWS) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	if err := request.ParseForm(); err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	action := request.PostForm.Get("Action")
	answer := ""
	switch {
	case action == "GetCallerIdentity":
		answer = `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Arn>arn:aws:iam::123456789012:user/fake</Arn>` +
			`<UserId>AIDAFAKE</UserId><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`
	case action == "DescribeSubnets":
		answer = fmt.Sprintf(`<DescribeSubnetsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><subnetSet><item><subnetId>%s</subnetId>`+
			`<availabilityZone>eu-central-1a</availabilityZone><state>available</state><vpcId>vpc-0</vpcId><cidrBlock>10.0.0.0/24</cidrBlock></item></subnetSet></DescribeSubnetsResponse>`,
			request.PostForm.Get("SubnetId.1"))
	case action == "DescribeVpcEndpointServices":
		answer = fmt.Sprintf(`<DescribeVpcEndpointServicesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><serviceNameSet><item>%[1]s</item></serviceNameSet>`+
			`<serviceDetailSet><item><serviceName>%[1]s</serviceName><serviceId>vpce-svc-0</serviceId><serviceType><item><serviceType>Interface</serviceType></item></serviceType>`+
			`<availabilityZoneSet><item>eu-central-1a</item><item>eu-central-1b</item></availabilityZoneSet></item></serviceDetailSet></DescribeVpcEndpointServicesResponse>`,
			request.PostForm.Get("ServiceName.1"))
	case action == "DescribeInstances":
		answer = `<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservationSet><item><instancesSet><item>` +
			`<instanceId>i-0aaaaaaaaaaaaaaaa</instanceId></item></instancesSet></item></reservationSet></DescribeInstancesResponse>`
	case action == "DescribeInstanceTypes":
		architecture := "x86_64"
		if graviton.MatchString(request.PostForm.Get("InstanceType.1")) {
			architecture = "arm64"
		}
		answer = fmt.Sprintf(`<DescribeInstanceTypesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><instanceTypeSet><item><instanceType>%s</instanceType>`+
			`<processorInfo><supportedArchitectures><item>%s</item></supportedArchitectures></processorInfo><memoryInfo><sizeInMiB>8192</sizeInMiB></memoryInfo>`+
			`<ebsInfo/><networkInfo/><placementGroupInfo/><vCpuInfo/></item></instanceTypeSet></DescribeInstanceTypesResponse>`,
			request.PostForm.Get("InstanceType.1"), architecture)
	case request.Header.Get("X-Amz-Target") == "AmazonSSM.GetParameter":
		value := "ami-0123456789abcdef0"
		if body, err := io.ReadAll(request.Body); err == nil && bytes.Contains(body, []byte("release_version")) {
			value = "1.33.0-20260901"
		}
		answer = fmt.Sprintf(`{"Parameter":{"Name":"image","Type":"String","Value":%q,"Version":1,"ARN":"arn:aws:ssm:eu-central-1::parameter/image"}}`, value)
		response.Header().Set("Content-Type", "application/x-amz-json-1.1")
	case strings.HasPrefix(request.URL.Path, "/addons/supported-versions"):
		answer = addonAnswer(request.URL.Query().Get("addonName"), request.URL.Query().Get("kubernetesVersion"))
		response.Header().Set("Content-Type", "application/json")
	default:
		f.mutex.Lock()
		f.unknown = append(f.unknown, request.Method+" "+request.URL.Path+" "+action)
		f.mutex.Unlock()
		http.Error(response, "The fake of AWS does not implement this call.", http.StatusBadRequest)
		return
	}
	fmt.Fprintln(response, answer) //nolint:gosec // No browser shows it.
}

// addonAnswer returns the only version of an add-on that the mocks of the tests have.
func addonAnswer(name, version string) string {
	type object = map[string]any
	text, err := json.Marshal(object{"addons": []any{object{"addonName": name, "addonVersions": []any{object{
		"addonVersion": "v1.0.0-eksbuild.1", "compatibilities": []any{object{"clusterVersion": version, "defaultVersion": true}},
	}}}}})
	if err != nil {
		return "{}"
	}
	return string(text)
}
