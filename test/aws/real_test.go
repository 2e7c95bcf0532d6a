package aws

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/test/aws/account"
)

// The lifecycle of the flavor eks in a real account, with the credentials of the user:
// `make e2e-aws REAL=1`. It creates resources that cost money. Whatever happens, it
// deletes the cluster before the budget is used up, and `make` sweeps the account
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
	steps, end := progressOf(t), time.Now().Add(limits.Work())

	m := startManagement(&emulator{WithT: g, t: t, region: limits.Region})
	m.cluster, m.tags = run.Cluster(), map[string]any{account.TagKey: run.ID}
	m.providerConfig(settings)
	defer m.deleteCluster(steps, a, run)
	m.ship(shipped{flavor: "eks", cluster: m.cluster, region: limits.Region, set: []string{"ENDPOINT_PUBLIC_CIDRS=" + ownNetwork(g)}}, nil)
	steps.done("created")

	plane := &controlplanev1.CAPTControlPlane{}
	m.waitUntil(end, &infrav1.CAPTCluster{}, infrav1.ReadyCondition)
	steps.done("VPC ready")
	m.waitUntil(end, plane, infrav1.ReadyCondition)
	steps.done("control plane ready")
	m.waitUntil(end, &clusterv1.Cluster{}, clusterv1.AvailableCondition)
	steps.done("available")
	m.change(plane, func() { plane.Spec.AdditionalTags["stage"] = "two" })
	m.waitUntil(end, plane, infrav1.ReadyCondition)
	steps.done("changed")
}

// ownNetwork returns the address of this machine as AWS sees it: the manager runs here.
func ownNetwork(g Gomega) string {
	response, err := http.Get("https://checkip.amazonaws.com")
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(string(text)) + "/32"
}

// waitUntil is wait with a deadline: a real account takes longer than an emulator.
func (m *management) waitUntil(end time.Time, obj conditioned, kind string) {
	m.t.Helper()
	m.Eventually(func(g Gomega) {
		g.Expect(m.own(obj)).To(Succeed())
		c := meta.FindStatusCondition(obj.GetConditions(), kind)
		g.Expect(c).NotTo(BeNil())
		if c.Reason == infrav1.WorkspaceFailedReason {
			StopTrying(c.Message).Now()
		}
		g.Expect(string(c.Status)).To(Equal("True"), "%T: %s: %s", obj, c.Reason, c.Message)
		g.Expect(c.ObservedGeneration).To(Equal(obj.GetGeneration()))
	}, time.Until(end), 10*time.Second).Should(Succeed(), "the budget allows no more time")
}

// deleteCluster deletes the cluster through CAPT, also after a failure, and expects that
// nothing is left. The test's context may have ended.
func (m *management) deleteCluster(steps *progress, a *account.Account, run account.Run) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.t.Context()), 50*time.Minute)
	defer cancel()
	cluster := &clusterv1.Cluster{}
	cluster.Namespace, cluster.Name = m.namespace, m.cluster
	if err := m.env.Client.Delete(ctx, cluster); err != nil {
		m.t.Errorf("Deleting the cluster: %v", err)
		return
	}
	m.Eventually(ctx, func(g Gomega) {
		err := m.get(m.cluster, cluster)
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", cluster.Status.Conditions)
	}, 45*time.Minute, 10*time.Second).Should(Succeed())
	steps.done("deleted")
	left, err := a.Find(ctx, run)
	m.Expect(err).NotTo(HaveOccurred())
	m.Expect(left).To(BeEmpty(), "CAPT leaves nothing: the sweep after the test is for failures")
}

// A run whose machine died has lost its state. The sweep removes what it left, and
// nothing else.
func TestSweep_removesAnAbandonedRun(t *testing.T) {
	needsEmulator(t)
	e := startEmulator(t)
	// The sweep runs with the credentials of the user, not with those of CAPT.
	e.administrator = []string{"events:ListRules", "iam:ListOpenIDConnectProviderTags", "iam:ListOpenIDConnectProviders", "iam:ListPolicies", "sqs:ListQueues"}
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
	// A sweep that ended between the two steps of a deletion.
	e.create("internetGatewayId", "CreateInternetGateway", specification("internet-gateway", account.TagKey, run.ID)...)
	found, err := a.Find(t.Context(), run)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(len(found)).To(BeNumerically(">", 40), "the run has resources of all kinds: %v", found)
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
