package workspacetemplateapply

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	_ "github.com/appthrust/capt/internal/testenv/waits"
)

func policyRule(action infrav1.PolicyAction) infrav1.PolicyRule {
	return infrav1.PolicyRule{Name: "keep", Action: action, Expression: `"delete" in resource.actions`, Message: "Nothing is destroyed."}
}

func newPolicy(action infrav1.PolicyAction, change ...func(*infrav1.WorkspacePolicy)) *infrav1.WorkspacePolicy {
	p := &infrav1.WorkspacePolicy{ObjectMeta: objectMeta("guard"), Spec: infrav1.WorkspacePolicySpec{Rules: []infrav1.PolicyRule{policyRule(action)}}}
	p.Generation = 1
	for _, c := range change {
		c(p)
	}
	return p
}

// violated is the result of a run whose plan violates the rule of newPolicy.
func violated(outcome terraform.Outcome, action terraform.PolicyAction) terraform.Result {
	return terraform.Result{
		Outcome: outcome, Plan: &terraform.PlanSummary{ID: planID, Destroy: 2}, State: terraform.StateInfo{Lineage: "l", Serial: 1, Resources: 2},
		Violations: []terraform.PolicyViolation{{
			Kind: "WorkspacePolicy", Policy: "guard", Generation: 1, Rule: "keep", Action: action, Message: "Nothing is destroyed.",
			Resources: []string{"aws_vpc.this"}, Count: 3,
		}},
	}
}

func TestReconcile_deniedPlanWaitsForThePolicy(t *testing.T) {
	c := newTestController(t, append(values(), newApply(), newPolicy(infrav1.PolicyDeny))...)
	c.reconcile()
	request, err := record.Request(c.runSecret("hello-r1"))
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(request.Policies.Policies).To(HaveLen(1))
	c.Expect(request.Policies.Policies[0].Rules[0].Match).To(Equal(terraform.MatchEachChange))
	c.Expect(request.Policies.Workspace.Name).To(Equal("hello"))
	c.Expect(request.Policies.Template.Name).To(Equal("vpc"))

	c.finish("hello-r1", violated(terraform.OutcomeDenied, terraform.PolicyDeny))
	c.reconcile()
	text := c.expect(infrav1.AppliedCondition, "False "+infrav1.PolicyDeniedReason)
	c.Expect(text).To(ContainSubstring("WorkspacePolicy guard, rule keep: Nothing is destroyed (aws_vpc.this and 2 more)"))
	plan := c.get().Status.Plan
	c.Expect(plan.PolicyAction).To(Equal(infrav1.PolicyDeny))
	c.Expect(plan.Violations).To(HaveLen(1))
	c.Eventually(c.reconciler.Recorder.(*events.FakeRecorder).Events).Should(Receive(ContainSubstring("PolicyViolated Deny: WorkspacePolicy guard")))
	c.reconcile()
	c.Expect(c.started).To(Equal([]string{"hello-r1"}), "it is not retried")

	stored := &infrav1.WorkspacePolicy{}
	c.Expect(c.server.Get(t.Context(), key("guard"), stored)).To(Succeed())
	stored.Spec.Rules[0].Action, stored.Generation = infrav1.PolicyWarn, 2
	c.Expect(c.server.Update(t.Context(), stored)).To(Succeed())
	c.reconcile()
	c.Expect(c.started).To(Equal([]string{"hello-r1", "hello-r2"}))
	c.finish("hello-r2", violated(terraform.OutcomeSucceeded, terraform.PolicyWarn))
	c.reconcile()
	c.expect(infrav1.AppliedCondition, "True "+infrav1.AppliedCondition)
	c.Expect(c.get().Status.Plan.Violations[0].Action).To(Equal(infrav1.PolicyWarn))

	c.Expect(c.server.Delete(t.Context(), stored)).To(Succeed())
	c.reconcile()
	c.Expect(c.started).To(HaveLen(2), "a policy starts no run of an applied workspace")
}

func TestReconcile_policyRequiresApproval(t *testing.T) {
	c := newTestController(t, append(values(), newApply(), newPolicy(infrav1.PolicyRequireApproval))...)
	c.reconcile()
	c.finish("hello-r1", violated(terraform.OutcomePlanned, terraform.PolicyRequireApproval))
	c.reconcile()
	c.expect(infrav1.AppliedCondition, "False "+infrav1.WaitingForApprovalReason)
	c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = planID })
	c.reconcile()
	c.Expect(c.started).To(Equal([]string{"hello-r1", "hello-r2"}))
	request, err := record.Request(c.runSecret("hello-r2"))
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(request.Operation).To(Equal(terraform.OperationApply))
	c.Expect(request.Policies).NotTo(BeNil(), "the policies decide again")
	applied := violated(terraform.OutcomeSucceeded, terraform.PolicyRequireApproval)
	applied.Plan = nil
	c.finish("hello-r2", applied)
	c.reconcile()
	c.expect(infrav1.AppliedCondition, "True "+infrav1.AppliedCondition)
}

// A policy is created after a plan that waits, and denies it when it is applied.
func TestReconcile_reportsAPlanThatIsDeniedWhenItIsApplied(t *testing.T) {
	c := newTestController(t, append(values(), newApply(), newPolicy(infrav1.PolicyRequireApproval, func(p *infrav1.WorkspacePolicy) { p.Name = "at-apply" }))...)
	history.RegisterMetrics(nil)
	count := func(action infrav1.PolicyAction) float64 {
		return max(measure(c, "capt_policy_violations_total", string(action), "WorkspacePolicy", "at-apply"), 0)
	}
	by := func(outcome terraform.Outcome, action terraform.PolicyAction) terraform.Result {
		result := violated(outcome, action)
		result.Violations[0].Policy = "at-apply"
		return result
	}
	recorded := c.reconciler.Recorder.(*events.FakeRecorder).Events
	c.reconcile()
	c.finish("hello-r1", by(terraform.OutcomePlanned, terraform.PolicyRequireApproval))
	c.reconcile()
	c.Eventually(recorded).Should(Receive(ContainSubstring("PolicyViolated RequireApproval: WorkspacePolicy at-apply")))
	c.Expect([]float64{count(infrav1.PolicyRequireApproval), count(infrav1.PolicyDeny)}).To(Equal([]float64{1, 0}))
	c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = planID })
	c.reconcile()
	denied := by(terraform.OutcomeDenied, terraform.PolicyDeny)
	denied.Plan = nil
	c.finish("hello-r2", denied)
	c.reconcile()
	c.expect(infrav1.AppliedCondition, "False "+infrav1.PolicyDeniedReason)
	c.Eventually(recorded).Should(Receive(ContainSubstring("PolicyViolated Deny: WorkspacePolicy at-apply")))
	c.Expect([]float64{count(infrav1.PolicyRequireApproval), count(infrav1.PolicyDeny)}).To(Equal([]float64{1, 1}))
	c.reconcile()
	c.Expect(count(infrav1.PolicyDeny)).To(BeEquivalentTo(1), "a run is counted once")
}

func TestReconcile_countsAViolationOfARunOnce(t *testing.T) {
	c := newTestController(t, append(values(), newApply(), newPolicy(infrav1.PolicyRequireApproval, func(p *infrav1.WorkspacePolicy) { p.Name = "counted" }))...)
	history.RegisterMetrics(nil)
	count := func() float64 {
		return measure(c, "capt_policy_violations_total", string(infrav1.PolicyRequireApproval), "WorkspacePolicy", "counted")
	}
	c.reconcile()
	planned := violated(terraform.OutcomePlanned, terraform.PolicyRequireApproval)
	planned.Violations[0].Policy = "counted"
	// A run may report anything.
	planned.Violations = append(planned.Violations, terraform.PolicyViolation{Kind: "WorkspacePolicy", Policy: "invented", Rule: "r", Action: terraform.PolicyWarn, Message: "m"})
	c.finish("hello-r1", planned)
	c.reconcile()
	c.Expect(count()).To(BeEquivalentTo(1))
	c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = planID })
	c.reconcile()
	applied := violated(terraform.OutcomeSucceeded, terraform.PolicyRequireApproval)
	applied.Plan, applied.Violations[0].Policy = nil, "counted"
	c.finish("hello-r2", applied)
	c.reconcile()
	c.Expect(count()).To(BeEquivalentTo(1), "the apply of an approved plan does not count again")
	c.Expect(measure(c, "capt_policy_violations_total", string(infrav1.PolicyWarn), "WorkspacePolicy", "invented")).To(BeNumerically("<", 0), "it has no counter")
}

func TestReconcile_withdrawsARunWhosePoliciesChanged(t *testing.T) {
	c := newTestController(t, append(values(), newApply(), newPolicy(infrav1.PolicyDeny))...)
	c.reconcile()
	// The manager ended before the runner started.
	c.started, c.liveness = nil, terraform.LivenessPending
	c.Expect(c.server.Delete(t.Context(), newPolicy(infrav1.PolicyDeny))).To(Succeed())
	c.reconcile()
	c.Expect(c.started).To(BeEmpty())
	c.reconcile()
	c.Expect(c.started).To(Equal([]string{"hello-r2"}))
}

func TestPoliciesOf_selects(t *testing.T) {
	labelled := func(value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"stage": value}}
	}
	cluster := func(name string, workspaces, namespaces *metav1.LabelSelector) client.Object {
		return &infrav1.ClusterWorkspacePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: infrav1.ClusterWorkspacePolicySpec{
			Selector: workspaces, NamespaceSelector: namespaces, Rules: []infrav1.PolicyRule{policyRule(infrav1.PolicyWarn)},
		}}
	}
	own := func(namespace, name string, selector *metav1.LabelSelector) client.Object {
		return newPolicy(infrav1.PolicyWarn, func(p *infrav1.WorkspacePolicy) {
			p.Namespace, p.Name, p.Spec.Selector = namespace, name, selector
		})
	}
	c := newTestController(t,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"stage": "prod"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "platform"}},
		cluster("all", nil, nil), cluster("prod", nil, labelled("prod")), cluster("test", nil, labelled("test")), cluster("labelled", labelled("a"), &metav1.LabelSelector{}),
		cluster("invalid", nil, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: "Guess"}}}),
		own("n", "all", nil), own("n", "labelled", labelled("a")), own("n", "other", labelled("b")), own("platform", "host", nil), own("platform", "labelled-host", labelled("a")),
	)
	names := func(apply *infrav1.WorkspaceTemplateApply) []string {
		policies, err := c.reconciler.build().resolver.PoliciesOf(t.Context(), apply, newTemplate())
		c.Expect(err).NotTo(HaveOccurred())
		var names []string
		for _, p := range policies.Policies {
			names = append(names, p.Kind[:1]+" "+p.Name)
		}
		return names
	}
	hello := newApply(func(a *infrav1.WorkspaceTemplateApply) { a.Labels = map[string]string{"stage": "a"} })
	c.Expect(names(hello)).To(Equal([]string{"C all", "C invalid", "C labelled", "C prod", "W all", "W labelled"}))

	// A workspace that runs for another one obeys the policies of both.
	c.Expect(c.server.Create(t.Context(), hello)).To(Succeed())
	host := newApply(func(a *infrav1.WorkspaceTemplateApply) {
		a.Namespace, a.Name, a.Annotations = "platform", "n.hello", map[string]string{infrav1.HostedForAnnotation: "n/hello"}
	})
	c.Expect(names(host)).To(Equal([]string{"C all", "C invalid", "C labelled", "C prod", "W all", "W labelled", "W host", "W labelled-host"}), "the labels of the guest count in both namespaces")
	homeless := newApply(func(a *infrav1.WorkspaceTemplateApply) { a.Namespace = "deleted" })
	c.Expect(names(homeless)).To(Equal([]string{"C all", "C invalid", "C prod", "C test"}), "a policy does not end with a namespace")
	policies, err := c.reconciler.build().resolver.PoliciesOf(t.Context(), host, newTemplate())
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(policies.Workspace.Namespace + "/" + policies.Workspace.Name).To(Equal("n/hello"))

	c.Expect(c.server.Create(t.Context(), host)).To(Succeed())
	requests := func(obj client.Object) []string {
		var keys []string
		for _, request := range c.reconciler.build().resolver.WorkspacesOfPolicy(t.Context(), obj) {
			keys = append(keys, request.String())
		}
		return keys
	}
	c.Expect(requests(own("n", "labelled", labelled("a")))).To(ConsistOf("n/hello", "platform/n.hello"))
	c.Expect(requests(own("n", "other", labelled("b")))).To(ConsistOf("platform/n.hello"))
	c.Expect(requests(own("m", "all", nil))).To(BeEmpty())
	c.Expect(requests(cluster("all", nil, nil))).To(ConsistOf("n/hello", "platform/n.hello"))
}

func TestPoliciesOf_containLabelsOnlyIfARuleReadsThem(t *testing.T) {
	hello := newApply(func(a *infrav1.WorkspaceTemplateApply) { a.Labels = map[string]string{"stage": "a"} })
	for _, test := range []struct {
		expression, message string
		has                 bool
	}{
		{expression: `"delete" in resource.actions`},
		{expression: `workspace.labels["stage"] == "a"`, has: true},
		{expression: `true`, message: `template.labels["x"]`, has: true},
		{expression: `dyn(workspace)["lab" + "els"]["stage"] == "a"`, has: true},
	} {
		c := newTestController(t, newPolicy(infrav1.PolicyDeny, func(p *infrav1.WorkspacePolicy) {
			p.Spec.Rules[0].Expression, p.Spec.Rules[0].MessageExpression = test.expression, test.message
		}))
		policies, err := c.reconciler.build().resolver.PoliciesOf(t.Context(), hello, newTemplate())
		c.Expect(err).NotTo(HaveOccurred())
		if test.has {
			c.Expect(policies.Workspace.Labels).To(Equal(hello.Labels), test.expression)
		} else {
			c.Expect(policies.Workspace.Labels).To(BeEmpty(), test.expression)
		}
	}
}

// An alert on the increase of a counter misses a first value that is not 0.
func TestPoliciesOf_countersExistBeforeTheFirstViolation(t *testing.T) {
	history.RegisterMetrics(nil)
	c := newTestController(t, newPolicy(infrav1.PolicyDeny, func(p *infrav1.WorkspacePolicy) { p.Name = "unseen" }))
	_, err := c.reconciler.build().scope(t.Context(), newApply(), nil)
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(measure(c, "capt_policy_violations_total", string(infrav1.PolicyDeny), "WorkspacePolicy", "unseen")).To(BeZero())
}

func TestRecordViolations_limitsWhatARunReports(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	result := violated(terraform.OutcomeDenied, "Explode")
	for range 100 {
		result.Violations = append(result.Violations, terraform.PolicyViolation{Kind: "K", Policy: "p", Rule: "r", Action: terraform.PolicyWarn, Message: string(make([]byte, 4000)) + "x"})
	}
	recordRun(g, s, terraform.OperationPlanAndApply, result)
	plan := s.Apply.Status.Plan
	g.Expect(plan.PolicyAction).To(Equal(infrav1.PolicyDeny), "a denied plan is never applied")
	g.Expect(plan.Violations).To(HaveLen(history.MaxViolations))
	for _, v := range plan.Violations {
		g.Expect(v.Action).To(Equal(infrav1.PolicyWarn))
		g.Expect(len(v.Message)).To(BeNumerically("<=", history.MaxViolationMessage))
	}
}
