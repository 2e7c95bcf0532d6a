package aws

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
)

// question asks a service what there is. found is what names a thing in its answer.
type question struct {
	service, action string
	form            url.Values
	// target is set for the services that speak JSON.
	target string
	found  *regexp.Regexp
}

var (
	ec2IDs  = regexp.MustCompile(`\b(vpc|subnet|rtb|igw|eipalloc|sg|sgr|lt)-[0-9a-f]{8,}\b`)
	iamARNs = regexp.MustCompile(`arn:aws:iam::[0-9]{12}:[^<]+`)
)

// inventory asks for everything that the modules make. KMS keys, NAT gateways and
// VPC endpoints stay visible after they are deleted, in AWS too: the key's alias,
// the gateway's address and endpoints that work are looked for.
func inventory() []question {
	var all []question
	for _, action := range []string{
		"DescribeVpcs", "DescribeSubnets", "DescribeRouteTables", "DescribeInternetGateways", "DescribeAddresses",
		"DescribeSecurityGroups", "DescribeSecurityGroupRules", "DescribeLaunchTemplates",
	} {
		all = append(all, question{service: "ec2", action: action, form: url.Values{"Version": {"2016-11-15"}}, found: ec2IDs})
	}
	for _, action := range []string{"ListRoles", "ListInstanceProfiles", "ListPolicies", "ListOpenIDConnectProviders"} {
		all = append(all, question{service: "iam", action: action, form: url.Values{"Version": {"2010-05-08"}, "Scope": {"Local"}}, found: iamARNs})
	}
	return append(all,
		question{service: "ec2", action: "DescribeVpcEndpoints", form: url.Values{"Version": {"2016-11-15"}}, found: regexp.MustCompile(`<state>(available|pending)</state>`)},
		question{service: "sqs", action: "ListQueues", target: "AmazonSQS", found: regexp.MustCompile(`/[0-9]{12}/[^"]+`)},
		question{service: "events", action: "ListRules", target: "AWSEvents", found: regexp.MustCompile(`arn:aws:events:[^"]+`)},
		question{service: "logs", action: "DescribeLogGroups", target: "Logs_20140328", found: regexp.MustCompile(`/aws/eks/[^":]+`)},
		question{service: "kms", action: "ListAliases", target: "TrentService", found: regexp.MustCompile(`alias/eks/[^"]+`)},
	)
}

// things names everything that is in the account.
func (e *emulator) things() []string {
	e.t.Helper()
	var names []string
	for _, q := range inventory() {
		for _, name := range q.found.FindAllString(e.ask(q), -1) {
			names = append(names, q.service+" "+name)
		}
	}
	response, err := http.Get(e.url + "/emulator/left")
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

// ask calls an action. The emulator reads a signature's scope, and no more.
func (e *emulator) ask(q question) string {
	e.t.Helper()
	body, kind := "{}", "application/x-amz-json-1.1"
	if q.target == "" {
		q.form.Set("Action", q.action)
		body, kind = q.form.Encode(), "application/x-www-form-urlencoded"
	}
	request, err := http.NewRequestWithContext(e.t.Context(), http.MethodPost, e.url+"/", strings.NewReader(body))
	e.Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Content-Type", kind)
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/"+region+"/"+q.service+"/aws4_request, SignedHeaders=host, Signature=none")
	if q.target != "" {
		request.Header.Set("X-Amz-Target", q.target+"."+q.action)
	}
	response, err := http.DefaultClient.Do(request)
	e.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(response.StatusCode).To(Equal(http.StatusOK), "%s %s: %s", q.service, q.action, text)
	return string(text)
}
