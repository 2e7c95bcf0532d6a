package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestGetClusters_showsTheCauseAndWhatNeedsTheUserFirst(t *testing.T) {
	h := newHarness(t)
	a := h.run("get", "clusters")
	h.Expect(a.code).To(Equal(0))
	h.Expect(a.err).To(ContainSubstring("captctl generate cluster"))

	ready, readyInfra, readyVPC := h.network("a-ready")
	h.setStatus(ready, func() { ready.Status.Conditions = condition("Available", "True", "Available", "") })
	h.setStatus(readyInfra, func() { readyInfra.Status.Conditions = condition("Ready", "True", "Ready", "") })
	h.setStatus(readyVPC, func() { readyVPC.Status.Conditions = condition("Ready", "True", "Ready", "") })
	_, infra, vpc := h.network("b-waits")
	h.setStatus(infra, func() {
		infra.Status.Conditions = condition("Ready", "False", infrav1.WaitingForApprovalReason, "waits")
	})
	h.setStatus(vpc, func() {
		vpc.Status.Conditions = condition("Ready", "False", infrav1.WaitingForApprovalReason, "Plan plan-1 waits for approval")
	})

	a = h.run("get", "clusters")
	h.Expect(a.code).To(Equal(0), a.err)
	h.Expect(a.out).To(MatchRegexp(`(?s)^NAME +VERSION +NODES +STATUS +SINCE +MESSAGE\nb-waits +0/0 +WaitingForApproval .*Plan plan-1 waits.*\na-ready +0/0 +Available `))
	h.Expect(h.run("get", "clusters", "-o", "name").out).To(Equal("cluster.cluster.x-k8s.io/b-waits\ncluster.cluster.x-k8s.io/a-ready\n"))
	h.Expect(h.run("get", "clusters", "-o", "wide").out).To(ContainSubstring(" AGE "))

	var clusters []struct {
		Name, State string
		Attention   []string
	}
	h.Expect(json.Unmarshal([]byte(h.run("get", "clusters", "-o", "json").out), &clusters)).To(Succeed())
	h.Expect(clusters).To(HaveLen(2))
	h.Expect(clusters[0]).To(And(HaveField("State", "Attention"), HaveField("Attention", []string{"b-waits-net"})))
}

func TestGetPlans_showsWaitingPlansFirst(t *testing.T) {
	h := newHarness(t)
	applied := workspace("a-applied")
	h.create(applied)
	h.setStatus(applied, func() {
		applied.Status.Plan = &infrav1.PlanStatus{ID: "plan-1111111111111111", Run: "a-applied-r1", CreatedAt: metav1.Now(), Add: 3}
	})
	h.planned("net")
	a := h.run("get", "plans")
	h.Expect(a.code).To(Equal(0), a.err)
	lines := strings.Split(a.out, "\n")
	h.Expect(lines[1]).To(MatchRegexp(`^net +plan-0123456789abcdef +1 +0 +0 +\w+ `))
	h.Expect(lines[2]).To(MatchRegexp(`^a-applied +plan-1111111111111111 +3 +0 +0 +Applied `))
	h.Expect(h.run("get", "workspaces", "-o", "name").out).To(ContainSubstring("workspacetemplateapply.infrastructure.cluster.x-k8s.io/net\n"))
	for _, name := range []string{"wsta/net", "workspace/net", "workspacetemplateapply.infrastructure.cluster.x-k8s.io/net"} {
		h.Expect(h.run("show", "plan", name).out).To(ContainSubstring("plan-0123456789abcdef"), name)
	}
}

func TestGet_watchPrintsWhatChanges(t *testing.T) {
	h := newHarness(t)
	h.create(workspace("first"), workspace("second"))
	running := h.start("get", "workspaces", "--watch")
	h.Eventually(running.out.String).Should(And(ContainSubstring("first"), ContainSubstring("second")))
	second := workspace("second")
	second.Namespace = h.namespace
	h.setStatus(second, func() {
		second.Status.Conditions = condition("Ready", "False", infrav1.RunFailedReason, "The region is unknown")
	})
	h.Eventually(running.out.String).Should(ContainSubstring("The region is unknown"))
	h.Expect(strings.Count(running.out.String(), "first")).To(Equal(1), "it did not change")
	running.stop()
	h.Eventually(running.code).Should(Receive(Equal(0)))
}

// A watch retries without an error what the user may not list.
func TestGet_watchFailsWithoutPermission(t *testing.T) {
	h := newHarness(t)
	for _, noun := range []string{"clusters", "workspaces", "addons", "plans"} {
		a := h.run("get", noun, "--watch", "--as", "stranger")
		h.Expect(a.code).To(Equal(1), noun)
		h.Expect(a.err).To(ContainSubstring("request that permission"), noun)
	}
}

func TestGetKubeconfig_prefersTheOneOfUsers(t *testing.T) {
	h := newHarness(t)
	h.create(cluster("demo", nil))
	h.Expect(h.run("get", "kubeconfig", "demo").err).To(Equal("cluster demo has no kubeconfig yet: see captctl describe cluster demo"))
	secret := func(name, content string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"value": []byte(content)}}
	}
	h.create(secret("demo-kubeconfig", "of CAPT"))
	h.Expect(h.run("get", "kubeconfig", "demo").out).To(Equal("of CAPT"))
	h.create(secret("demo-user-kubeconfig", "of users"))
	h.Expect(h.run("get", "kubeconfig", "demo").out).To(Equal("of users"))
	h.Expect(h.run("get", "kubeconfig", "dem").err).To(ContainSubstring(`did you mean "demo"?`))
}

func TestSuspend_pausesUntilResumed(t *testing.T) {
	h := newHarness(t)
	c, apply := cluster("demo", nil), workspace("net")
	h.create(c, apply)
	h.Expect(h.run("suspend", "cluster", "demo").out).To(Equal("Cluster demo is paused\n"))
	h.Expect(h.run("suspend", "workspace", "net").out).To(Equal("Workspace net is paused\n"))
	h.reload(c)
	h.reload(apply)
	h.Expect(c.Spec.Paused).To(HaveValue(BeTrue()))
	h.Expect(apply.Annotations).To(HaveKey(clusterv1.PausedAnnotation))

	h.Expect(h.run("resume", "cluster", "demo").out).To(Equal("Cluster demo is not paused\n"))
	h.Expect(h.run("resume", "workspace", "wsta/net").out).To(Equal("Workspace net is not paused\n"))
	h.reload(c)
	h.reload(apply)
	h.Expect(ptr.Deref(c.Spec.Paused, false)).To(BeFalse())
	h.Expect(apply.Annotations).NotTo(HaveKey(clusterv1.PausedAnnotation))
}

func TestTimeout_endsAWaitAndSaysWhatContinues(t *testing.T) {
	h := newHarness(t)
	h.create(workspace("net"))
	a := h.run("reconcile", "net", "--wait", "--timeout", "1s")
	h.Expect(a.code).To(Equal(1))
	h.Expect(a.err).To(HaveSuffix("not ready after 1s; the run was requested and may still be executed"))
}

func TestFormerNames_workAndSayTheNewOne(t *testing.T) {
	h := newHarness(t)
	h.create(workspace("net"))
	a := h.run("retry", "net")
	h.Expect(a.code).To(Equal(0))
	h.Expect(a.err).To(Equal("captctl retry is now called captctl reconcile\n"))
	h.Expect(h.run("--help").out).NotTo(ContainSubstring("retry"))
}
