package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// harness is an emulator with canned EC2 responses in place of moto.
type harness struct {
	*httptest.Server
	t   *testing.T
	eks *eks
	now time.Time
	// asked are the actions and forms of the calls of EC2.
	asked []url.Values
	// answers are responses of moto by action, in place of the usual ones.
	answers map[string]string
	// respond, if set, answers calls before them.
	respond func(form url.Values) string
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	r := &harness{t: t, now: time.Unix(1_800_000_000, 0)}
	moto := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if err := request.ParseForm(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.asked = append(r.asked, request.PostForm)
		if r.respond != nil {
			if answer := r.respond(request.PostForm); answer != "" {
				_, _ = fmt.Fprint(w, answer)
				return
			}
		}
		_, _ = fmt.Fprint(w, r.answer(request.PostForm.Get("Action")))
	}))
	t.Cleanup(moto.Close)
	r.eks = newEKS(moto.URL)
	r.eks.now = func() time.Time { return r.now }
	r.Server = httptest.NewServer(newServer(moto.URL, r.eks, io.Discard))
	t.Cleanup(r.Close)
	return r
}

func (r *harness) answer(action string) string {
	if answer, has := r.answers[action]; has {
		return answer
	}
	answer, has := map[string]string{
		"DescribeSubnets": `<R><subnetSet><item><vpcId>vpc-1</vpcId><availabilityZone>a</availabilityZone></item>` +
			`<item><vpcId>vpc-1</vpcId><availabilityZone>b</availabilityZone></item></subnetSet></R>`,
		"CreateSecurityGroup":           `<R><groupId>sg-1</groupId></R>`,
		"AuthorizeSecurityGroupIngress": `<R><securityGroupRuleSet><item><securityGroupRuleId>sgr-1</securityGroupRuleId></item></securityGroupRuleSet></R>`,
		"CreateLaunchTemplate":          `<R><launchTemplate><launchTemplateId>lt-1</launchTemplateId></launchTemplate></R>`,
		"DescribeTags":                  `<R><tagSet><item><key>a</key><value>new &amp; shown</value></item></tagSet></R>`,
	}[action]
	if !has {
		return "<R/>"
	}
	return answer
}

// do calls a service and returns the status and the response.
func (r *harness) do(service, method, path, body string) (int, string) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.URL+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=k/20260101/eu-central-1/"+service+"/aws4_request, SignedHeaders=host, Signature=s")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// must calls EKS and expects a status and a text in the response.
func (r *harness) must(status int, contains, method, path, body string) {
	r.t.Helper()
	got, text := r.do("eks", method, path, body)
	if got != status || !strings.Contains(text, contains) {
		r.t.Fatalf("%s %s: got %d %s, want %d and %q", method, path, got, text, status, contains)
	}
}

func (r *harness) settle() { r.now = r.now.Add(time.Second) }

const demoCluster = `{"name":"demo","version":"1.32","tags":{"a":"b"},"resourcesVpcConfig":{"subnetIds":["subnet-a","subnet-b"]}}`

func newCluster(t *testing.T) *harness {
	t.Helper()
	r := newHarness(t)
	r.must(200, `"status":"CREATING"`, "POST", "/clusters", demoCluster)
	r.must(200, `"status":"CREATING"`, "GET", "/clusters/demo", "")
	r.settle()
	r.must(200, `"status":"ACTIVE"`, "GET", "/clusters/demo", "")
	return r
}

func TestEKS_clusterHasTheSecurityGroupOfItsVPC(t *testing.T) {
	r := newCluster(t)
	r.must(200, `"clusterSecurityGroupId":"sg-1"`, "GET", "/clusters/demo", "")
	r.must(200, `"vpcId":"vpc-1"`, "GET", "/clusters/demo", "")
	r.must(409, "exists", "POST", "/clusters", demoCluster)
}

func TestEKS_upgradesOneMinorVersionAtATime(t *testing.T) {
	r := newCluster(t)
	r.must(400, "from 1.32 to 1.34", "POST", "/clusters/demo/updates", `{"version":"1.34"}`)
	r.must(400, "unsupported Kubernetes version 1.31", "POST", "/clusters/demo/updates", `{"version":"1.31"}`)
	_, text := r.do("eks", "POST", "/clusters/demo/updates", `{"version":"1.33"}`)
	var begun struct{ Update struct{ ID, Status string } }
	if err := json.Unmarshal([]byte(text), &begun); err != nil || begun.Update.Status != "InProgress" {
		t.Fatalf("the update is not in progress: %s (%v)", text, err)
	}
	r.must(409, "UPDATING", "POST", "/clusters/demo/updates", `{"version":"1.34"}`)
	r.settle()
	r.must(200, "Successful", "GET", "/clusters/demo/updates/"+begun.Update.ID, "")
	r.must(200, `"version":"1.33"`, "GET", "/clusters/demo", "")
	r.must(400, "from 1.33 to 1.32", "POST", "/clusters/demo/updates", `{"version":"1.32"}`)
}

func TestEKS_updatesOneSettingOfAClusterAtATime(t *testing.T) {
	r := newCluster(t)
	r.must(400, "nothing to update", "POST", "/clusters/demo/update-config", `{"clientRequestToken":"a"}`)
	r.must(400, "only one type of update", "POST", "/clusters/demo/update-config", `{"zonalShiftConfig":{"enabled":true},"deletionProtection":true}`)
	for _, enabled := range []string{"true", "false"} {
		r.must(200, "ZonalShiftConfigUpdate", "POST", "/clusters/demo/update-config", `{"zonalShiftConfig":{"enabled":`+enabled+`}}`)
		r.settle()
		r.must(200, `"zonalShiftConfig":{"enabled":`+enabled+`}`, "GET", "/clusters/demo", "")
	}
}

func TestEKS_rejectsAnAddonOfAnotherVersion(t *testing.T) {
	r := newCluster(t)
	r.must(400, "not supported", "POST", "/clusters/demo/addons", `{"addonName":"coredns","addonVersion":"v1.33.1-eksbuild.2"}`)
	r.must(200, "v1.32.1-eksbuild.2", "POST", "/clusters/demo/addons", `{"addonName":"coredns"}`)
	r.must(200, `"defaultVersion":true`, "GET", "/addons/supported-versions?addonName=coredns&kubernetesVersion=1.32", "")
}

func TestEKS_keepsAClusterThatHasNodes(t *testing.T) {
	r := newCluster(t)
	r.must(200, "CREATING", "POST", "/clusters/demo/node-groups", `{"nodegroupName":"system"}`)
	r.settle()
	r.must(409, "node-groups attached", "DELETE", "/clusters/demo", "")
	r.must(200, "DELETING", "DELETE", "/clusters/demo/node-groups/system", "")
	r.settle()
	r.must(200, "DELETING", "DELETE", "/clusters/demo", "")
	r.settle()
	r.must(404, "", "GET", "/clusters/demo", "")
	if left := r.eks.remaining(); len(left) != 0 {
		t.Fatalf("left behind: %v", left)
	}
}

func TestEKS_findsAccessEntriesAndTagsByARN(t *testing.T) {
	r := newCluster(t)
	const entry = "/clusters/demo/access-entries/arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fadmin"
	r.must(200, "accessEntryArn", "POST", "/clusters/demo/access-entries", `{"principalArn":"arn:aws:iam::123456789012:role/admin"}`)
	r.must(200, "view", "POST", entry+"/access-policies", `{"policyArn":"arn:aws:eks::aws:cluster-access-policy/view"}`)
	r.must(200, "policy/view", "GET", entry+"/access-policies", "")
	r.must(200, "", "DELETE", entry+"/access-policies/arn%3Aaws%3Aeks%3A%3Aaws%3Acluster-access-policy%2Fview", "")
	r.must(200, `"associatedAccessPolicies":[]`, "GET", entry+"/access-policies", "")

	const tags = "/tags/arn%3Aaws%3Aeks%3Aeu-central-1%3A123456789012%3Acluster%2Fdemo"
	r.must(200, "", "POST", tags, `{"tags":{"c":"d"}}`)
	r.must(200, "", "DELETE", tags+"?tagKeys=a", "")
	r.must(200, `{"tags":{"c":"d"}}`, "GET", tags, "")
}

func TestEKS_rejectsUnknownCalls(t *testing.T) {
	newHarness(t).must(501, "GET /insights", "GET", "/insights", "")
}
