package aws

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
)

// query lists resources of a service. found matches the name of a resource in the
// response.
type query struct {
	service, action string
	form            url.Values
	// target is set for services with a JSON protocol.
	target string
	found  *regexp.Regexp
}

var (
	ec2IDs  = regexp.MustCompile(`\b(vpc|subnet|rtb|igw|eigw|eipalloc|sg|sgr|lt)-[0-9a-f]{8,}\b`)
	iamARNs = regexp.MustCompile(`arn:aws:iam::[0-9]{12}:[^<]+`)
)

// inventory returns queries for everything that the modules create. KMS keys, NAT
// gateways and VPC endpoints stay visible after their deletion, as in AWS, so the
// queries are for the key's alias, the gateway's address and available endpoints.
func inventory() []query {
	var all []query
	for _, action := range []string{
		"DescribeVpcs", "DescribeSubnets", "DescribeRouteTables", "DescribeInternetGateways", "DescribeEgressOnlyInternetGateways", "DescribeAddresses",
		"DescribeSecurityGroups", "DescribeSecurityGroupRules", "DescribeLaunchTemplates",
	} {
		all = append(all, query{service: "ec2", action: action, form: url.Values{"Version": {"2016-11-15"}}, found: ec2IDs})
	}
	for _, action := range []string{"ListRoles", "ListInstanceProfiles", "ListUsers", "ListPolicies", "ListOpenIDConnectProviders"} {
		all = append(all, query{service: "iam", action: action, form: url.Values{"Version": {"2010-05-08"}, "Scope": {"Local"}}, found: iamARNs})
	}
	return append(all,
		query{service: "ec2", action: "DescribeInstances", form: url.Values{
			"Version": {"2016-11-15"}, "Filter.1.Name": {"instance-state-name"}, "Filter.1.Value.1": {"pending"}, "Filter.1.Value.2": {"running"},
		}, found: regexp.MustCompile(`\bi-[0-9a-f]{8,}\b`)},
		query{service: "ec2", action: "DescribeNetworkInterfaces", form: url.Values{"Version": {"2016-11-15"}}, found: regexp.MustCompile(`\beni-[0-9a-f]{8,}\b`)},
		query{service: "ec2", action: "DescribeVolumes", form: url.Values{"Version": {"2016-11-15"}}, found: regexp.MustCompile(`\bvol-[0-9a-f]{8,}\b`)},
		query{service: "ec2", action: "DescribeVpcEndpoints", form: url.Values{"Version": {"2016-11-15"}}, found: regexp.MustCompile(`<state>(available|pending)</state>`)},
		query{service: "sqs", action: "ListQueues", target: "AmazonSQS", found: regexp.MustCompile(`/[0-9]{12}/[^"]+`)},
		query{service: "events", action: "ListRules", target: "AWSEvents", found: regexp.MustCompile(`arn:aws:events:[^"]+`)},
		query{service: "logs", action: "DescribeLogGroups", target: "Logs_20140328", found: regexp.MustCompile(`/aws/eks/[^":]+`)},
		query{service: "kms", action: "ListAliases", target: "TrentService", found: regexp.MustCompile(`alias/eks/[^"]+`)},
	)
}

// resources returns the names of all resources of the account.
func (e *emulator) resources() []string {
	e.t.Helper()
	var names []string
	for _, q := range inventory() {
		for _, name := range q.found.FindAllString(e.call(q), -1) {
			names = append(names, q.service+" "+name)
		}
	}
	response, err := http.Get(e.url + "/emulator/objects")
	e.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	var left []string
	e.Expect(json.NewDecoder(response.Body).Decode(&left)).To(Succeed())
	for _, name := range left {
		names = append(names, "eks "+name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// withoutSpotRole returns the resources except the account's role for Spot, which stays.
func (e *emulator) withoutSpotRole() []string {
	e.t.Helper()
	return slices.DeleteFunc(e.resources(), func(name string) bool { return name == spotRole })
}

// call calls an action.
func (e *emulator) call(q query) string {
	e.t.Helper()
	status, text := e.attempt(q)
	e.Expect(status).To(Equal(http.StatusOK), "%s %s: %s", q.service, q.action, text)
	return text
}

// attempt calls an action that may fail.
func (e *emulator) attempt(q query) (status int, text string) {
	e.t.Helper()
	if q.target != "" {
		return e.request(http.MethodPost, "/", q.service, "application/x-amz-json-1.1", q.target+"."+q.action, "{}")
	}
	q.form.Set("Action", q.action)
	return e.request(http.MethodPost, "/", q.service, "application/x-www-form-urlencoded", "", q.form.Encode())
}

// request sends a request.
func (e *emulator) request(method, path, service, kind, target, body string) (status int, text string) {
	e.t.Helper()
	status, text, err := e.send(e.t.Context(), method, path, service, kind, target, body)
	e.Expect(err).NotTo(HaveOccurred())
	return status, text
}

// send sends a request. Of the signature, the emulator reads only the scope.
func (e *emulator) send(ctx context.Context, method, path, service, kind, target, body string) (status int, text string, err error) {
	request, err := http.NewRequestWithContext(ctx, method, e.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", kind)
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/"+e.region+"/"+service+"/aws4_request, SignedHeaders=host, Signature=none")
	if target != "" {
		request.Header.Set("X-Amz-Target", target)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), err
}
