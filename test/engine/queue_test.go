package engine

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

const brief = `
variable "dir" { type = string }
variable "name" { type = string }
resource "terraform_data" "x" {
  provisioner "local-exec" { command = "echo + >> ${var.dir}/running; sleep 0.2; echo - >> ${var.dir}/running; touch ${var.dir}/done-${var.name}" }
}
`

func TestQueue_oneNamespaceDoesNotStarveAnother(t *testing.T) {
	t.Parallel()
	w := prepareWithManager(t)
	w.Args = []string{"--watch-filter=" + w.filter, "--max-runs=1"}
	w.Expect(w.Start()).To(Succeed())
	w.template("brief", brief)
	for i := range 12 {
		w.apply(fmt.Sprintf("busy-%d", i), "brief", variables(map[string]string{"dir": w.dir, "name": fmt.Sprint(i)}))
	}
	w.Eventually(func() string { return w.file("running") }, testTimeout).ShouldNot(BeEmpty())
	quiet := newSecondHarness(w)
	quiet.template("brief", brief)
	quiet.apply("quiet", "brief", variables(map[string]string{"dir": quiet.dir, "name": "quiet"}))

	quiet.waitReady("quiet")
	waiting := 0
	for i := range 12 {
		if condition(w.get(fmt.Sprintf("busy-%d", i)), infrav1.ReadyCondition).Status != "True" {
			waiting++
		}
	}
	w.Expect(waiting).To(BeNumerically(">", 4), "it did not wait for all other runs")
	for i := range 12 {
		w.waitReady(fmt.Sprintf("busy-%d", i))
	}
}

func TestQueue_aProviderConfigLimitsItsRuns(t *testing.T) {
	w := newHarness(t)
	one := int32(1)
	w.create(&infrav1.WorkspaceProviderConfig{ObjectMeta: w.meta("one"), Spec: infrav1.WorkspaceProviderConfigSpec{MaxConcurrentRuns: &one}})
	w.template("brief", brief, func(s *infrav1.WorkspaceSpec) { s.ProviderConfigRef = &infrav1.LocalReference{Name: "one"} })
	for i := range 4 {
		w.apply(fmt.Sprintf("hello-%d", i), "brief", variables(map[string]string{"dir": w.dir, "name": fmt.Sprint(i)}))
	}
	for i := range 4 {
		w.waitReady(fmt.Sprintf("hello-%d", i))
	}
	w.Expect(w.file("running")).To(Equal("+\n-\n+\n-\n+\n-\n+\n-"), "one at a time")
}

// The API server rejects every update of the state during the apply, as a broken
// backend would.
func TestState_isSavedWhenTheBackendWorksAgain(t *testing.T) {
	w := newHarness(t)
	// Creating the same directory twice would fail.
	w.template("once", replaceAll(several, "mkdir -p", "mkdir"))
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					// An empty Secret is created before the run starts.
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{
				Expression: fmt.Sprintf("object.metadata.namespace != '%s' || !object.metadata.name.startsWith('tfstate-')", w.namespace),
				Message:    "the backend is broken",
			}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: w.namespace, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	w.create(policy)
	w.create(binding)
	w.waitRejected()
	w.apply("hello", "once", variables(map[string]string{"dir": w.dir}))
	w.Eventually(w.directories, testTimeout).Should(Equal(4))
	w.Consistently(func() []string { return w.addresses("hello") }, 3*time.Second, 500*time.Millisecond).Should(BeEmpty(), "the state could not be saved")

	w.Expect(env.Client.Delete(w.ctx, binding)).To(Succeed())
	w.Expect(env.Client.Delete(w.ctx, policy)).To(Succeed())
	a := w.waitReady("hello")
	w.expectConverged("hello")
	w.Expect(a.Status.History).To(HaveLen(1), "the first run saved the resources in the end")
	w.Expect(w.secrets()).NotTo(ContainElement(HavePrefix("capt-rescue-")))
	w.delete("hello")
	w.waitDeleted("hello")
	w.Expect(w.directories()).To(BeZero())
}

// waitRejected waits until the policy is in force.
func (w *harness) waitRejected() {
	w.t.Helper()
	probe := &corev1.Secret{ObjectMeta: w.meta("tfstate-default-probe")}
	w.create(probe)
	w.Eventually(func() error {
		return env.Client.Update(w.ctx, probe)
	}, testTimeout).Should(MatchError(ContainSubstring("the backend is broken")))
	w.Expect(env.Client.Delete(w.ctx, probe)).To(Succeed())
}
