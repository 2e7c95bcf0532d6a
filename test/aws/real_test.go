package aws

import (
	"context"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/test/aws/account"
)

// The commands of docs/aws.md in a real account, with the credentials of the user:
// `make e2e-aws REAL=1`. They create resources that cost money. Whatever happens, the
// cluster is deleted before the budget is used up, and `make` sweeps the account
// afterwards.
func TestReal_livesAndLeavesNothing(t *testing.T) {
	if os.Getenv("CAPT_TEST_AWS_REAL") != "1" {
		t.Skip("make e2e-aws REAL=1 runs it in an AWS account")
	}
	g := NewWithT(t)
	limits, err := account.ReadLimits(os.Getenv)
	g.Expect(err).NotTo(HaveOccurred())
	run, err := account.ParseRun(os.Getenv("CAPT_E2E_RUN"))
	g.Expect(err).NotTo(HaveOccurred())
	a, err := account.Open(t.Context(), limits.Region)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(a.Check(t.Context(), limits, time.Now())).To(Succeed())
	settings, err := a.Environment(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	env, err := sharedEnvironment()
	g.Expect(err).NotTo(HaveOccurred())

	p := openPage(t, env.Kubeconfig, settings)
	p.read("aws", "aws-real")
	p.rename(run, limits.Region)
	// An interrupted test removes what it created, too.
	interrupted, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(interrupted, limits.Work())
	defer cancel()
	// The option x would print keys.
	g.Expect(p.follow(ctx, "-euv", os.Stdout)).To(Succeed())

	left, err := a.Find(context.WithoutCancel(t.Context()), run)
	g.Expect(err).NotTo(HaveOccurred())
	left = slices.DeleteFunc(left, func(text string) bool { return strings.HasPrefix(text, "log group ") })
	g.Expect(left).To(BeEmpty(), "the page leaves nothing but the log group, which EKS may create again: the sweep after the test is for failures")
}

// A run whose machine died has lost its state. The sweep removes what it left, and
// nothing else.
func TestSweep_removesAnAbandonedRun(t *testing.T) {
	needsEmulator(t)
	e := startEmulator(t)
	// The sweep runs with the credentials of the user, not with those of CAPT.
	e.administrator = []string{
		"events:ListRules", "iam:ListOpenIDConnectProviderTags", "iam:ListOpenIDConnectProviders", "iam:ListPolicies", "iam:ListUsers",
		"iam:ListAccessKeys", "iam:DeleteAccessKey", "iam:ListAttachedUserPolicies", "iam:DetachUserPolicy", "iam:DeleteUser", "sqs:ListQueues", "tag:GetResources",
	}
	a, err := account.Open(t.Context(), region, config.WithBaseEndpoint(e.url),
		config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("emulated", "emulated", "")))
	e.Expect(err).NotTo(HaveOccurred())
	run, err := account.ParseRun("abc123")
	e.Expect(err).NotTo(HaveOccurred())
	other, err := account.ParseRun("abc1234")
	e.Expect(err).NotTo(HaveOccurred())

	e.network(other.Cluster())
	before := e.everything()
	tags := map[string]string{account.TagKey: run.ID}
	network := e.module("network", map[string]any{"name": run.Cluster(), "region": region, "cluster_name": run.Cluster(), "tags": tags, "ipv6": true})
	network.apply(nil)
	eks := e.module("eks", map[string]any{
		"cluster_name": run.Cluster(), "kubernetes_version": "1.35", "region": region, "tags": tags,
		"vpc_id": output[string](network, "vpc_id"), "subnet_ids": output[[]string](network, "private_subnets"),
		"fargate_profiles": map[string]any{"jobs": map[string]any{"selectors": []any{map[string]any{"namespace": "jobs"}}}},
	})
	eks.apply(nil)
	// A key whose run died before it had an alias, and a target group without its load balancer.
	status, text := e.request(http.MethodPost, "/", "kms", "application/x-amz-json-1.1", "TrentService.CreateKey", `{"Tags":[{"TagKey":"`+account.TagKey+`","TagValue":"`+run.ID+`"}]}`)
	e.Expect(status).To(Equal(http.StatusOK), text)
	e.elb("2015-12-01", "CreateTargetGroup", "Name", "left", "Protocol", "TCP", "Port", "80", "VpcId", output[string](network, "vpc_id"))
	user := run.Cluster()
	e.iam("CreateUser", "UserName", user)
	e.iam("CreateAccessKey", "UserName", user)
	e.iam("CreatePolicy", "PolicyName", user+"-network", "PolicyDocument", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"ec2:*","Resource":"*"}]}`)
	e.iam("AttachUserPolicy", "UserName", user, "PolicyArn", "arn:aws:iam::123456789012:policy/"+user+"-network")
	// A sweep that ended between the two steps of a deletion.
	e.create("internetGatewayId", "CreateInternetGateway", specification("internet-gateway", account.TagKey, run.ID)...)
	found, err := a.Find(t.Context(), run)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(len(found)).To(BeNumerically(">", 40), "the run has resources of all kinds: %v", found)
	e.Expect(found).To(ContainElements(HavePrefix("target group "), HavePrefix("key arn:"), HavePrefix("key alias/"), HavePrefix("user ")))
	none, err := a.Find(t.Context(), account.Run{ID: "zzzzzz"})
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(none).To(BeEmpty())

	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	left, err := a.Sweep(ctx, run, 2*time.Second, t.Logf)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(left).To(BeEmpty())
	e.Expect(e.everything()).To(Equal(before), "only the resources of the run are deleted")
}
