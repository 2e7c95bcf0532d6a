package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

func TestActionOf_isTheActionOfIAM(t *testing.T) {
	_, eksAction := newEKS("").handler()
	seen := &calls{eks: eksAction}
	for want, c := range map[string]struct{ service, method, path, target, body string }{
		"ec2:DescribeVpcs":                 {"ec2", "POST", "/", "", "Action=DescribeVpcs&Version=2016-11-15"},
		"iam:CreateRole":                   {"iam", "POST", "/", "", "Action=CreateRole"},
		"sqs:CreateQueue":                  {"sqs", "POST", "/", "AmazonSQS.CreateQueue", "{}"},
		"kms:CreateKey":                    {"kms", "POST", "/", "TrentService.CreateKey", "{}"},
		"tag:GetResources":                 {"tagging", "POST", "/", "ResourceGroupsTaggingAPI_20170126.GetResources", "{}"},
		"sts:GetCallerIdentity":            {"sts", "GET", "/?Action=GetCallerIdentity", "", ""},
		"eks:CreateCluster":                {"eks", "POST", "/clusters", "", "{}"},
		"eks:DescribeCluster":              {"eks", "GET", "/clusters/demo", "", ""},
		"eks:UpdateClusterVersion":         {"eks", "POST", "/clusters/demo/updates", "", "{}"},
		"eks:DescribeUpdate":               {"eks", "GET", "/clusters/demo/updates/1", "", ""},
		"eks:UpdateClusterConfig":          {"eks", "POST", "/clusters/demo/update-config", "", "{}"},
		"eks:DescribeAddonVersions":        {"eks", "GET", "/addons/supported-versions", "", ""},
		"eks:DescribeClusterVersions":      {"eks", "GET", "/cluster-versions", "", ""},
		"eks:CreateNodegroup":              {"eks", "POST", "/clusters/demo/node-groups", "", "{}"},
		"eks:UpdateNodegroupVersion":       {"eks", "POST", "/clusters/demo/node-groups/a/update-version", "", "{}"},
		"eks:ListAccessEntries":            {"eks", "GET", "/clusters/demo/access-entries", "", ""},
		"eks:DeleteAddon":                  {"eks", "DELETE", "/clusters/demo/addons/coredns", "", ""},
		"eks:UpdatePodIdentityAssociation": {"eks", "POST", "/clusters/demo/pod-identity-associations/a", "", "{}"},
		"eks:AssociateAccessPolicy":        {"eks", "POST", "/clusters/demo/access-entries/arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fa/access-policies", "", "{}"},
		"eks:DescribeAccessEntry":          {"eks", "GET", "/clusters/demo/access-entries/arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fa", "", ""},
		"eks:TagResource":                  {"eks", "POST", "/tags/arn", "", "{}"},
		"s3:ListBucket":                    {"s3", "GET", "/states?list-type=2", "", ""},
		"s3:GetObject":                     {"s3", "HEAD", "/states/capt/a/b.tfstate", "", ""},
		"s3:PutObject":                     {"s3", "PUT", "/states/capt/a/b.tfstate.tflock?x-id=PutObject", "", "{}"},
		"s3:DeleteObject":                  {"s3", "DELETE", "/states/capt/a/b.tfstate.tflock", "", ""},
		"logs:GET /unknown":                {"logs", "GET", "/unknown", "", ""},
	} {
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=key/20260101/eu-central-1/"+c.service+"/aws4_request, SignedHeaders=host, Signature=x")
		if c.target != "" {
			r.Header.Set("X-Amz-Target", c.target)
		}
		if got := seen.actionOf(r); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if left, err := io.ReadAll(r.Body); err != nil || string(left) != c.body {
			t.Errorf("%s: the body is %q, %v", want, left, err)
		}
	}
	if got := seen.actionOf(httptest.NewRequest(http.MethodGet, "/moto-api/data.json", nil)); got != "" {
		t.Errorf("a call without a signature is %q", got)
	}
}

func TestCalls_listsEachOnce(t *testing.T) {
	_, eksAction := newEKS("").handler()
	c := &calls{eks: eksAction, seen: map[string]bool{}}
	handler := c.record(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, path := range []string{"/clusters/b", "/clusters", "/clusters/a"} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=key/20260101/eu-central-1/eks/aws4_request, Signature=x")
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	if got := c.list(); !slices.Equal(got, []string{"eks:DescribeCluster", "eks:ListClusters"}) {
		t.Errorf("got %v", got)
	}
}
