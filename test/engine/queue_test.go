package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

const brief = `
variable "dir" { type = string }
variable "name" { type = string }
resource "terraform_data" "x" {
  provisioner "local-exec" { command = "while [ -e ${var.dir}/hold ]; do sleep 0.1; done; echo + >> ${var.dir}/running; sleep 0.2; echo - >> ${var.dir}/running; echo ${var.name} >> ${var.dir}/ended" }
}
`

func TestQueue_oneNamespaceDoesNotStarveAnother(t *testing.T) {
	w := prepareWithManager(t)
	w.Args = []string{"--watch-filter=" + w.filter, "--max-runs=1"}
	w.Expect(w.Start()).To(Succeed())
	w.template("brief", brief)
	w.touch("hold")
	const busy = 8
	for i := range busy {
		w.apply(fmt.Sprintf("busy-%d", i), "brief", variables(map[string]string{"dir": w.dir, "name": fmt.Sprint(i)}))
	}
	w.Eventually(func() (queued int) {
		for i := range busy {
			if objecttest.Condition(w.get(fmt.Sprintf("busy-%d", i)), infrav1.AppliedCondition).Reason == infrav1.QueuedReason {
				queued++
			}
		}
		return queued
	}, testTimeout).Should(Equal(busy - 1))
	quiet := newSecondHarness(w)
	quiet.template("brief", brief)
	quiet.apply("quiet", "brief", variables(map[string]string{"dir": quiet.dir, "name": "quiet"}))
	quiet.waitReason("quiet", infrav1.AppliedCondition, infrav1.QueuedReason)

	w.remove("hold")
	quiet.waitReady("quiet")
	for i := range busy {
		w.waitReady(fmt.Sprintf("busy-%d", i))
	}
	w.Expect(slices.Index(strings.Fields(w.file("ended")), "quiet")).To(BeNumerically("<", busy-2), "it did not wait for all other runs")
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
	remove := func(ctx context.Context) {
		w.Expect(client.IgnoreNotFound(env.Client.Delete(ctx, binding))).To(Succeed())
		w.Expect(client.IgnoreNotFound(env.Client.Delete(ctx, policy))).To(Succeed())
	}
	t.Cleanup(func() { remove(context.WithoutCancel(w.ctx)) })
	w.waitRejected()
	w.apply("hello", "once", variables(map[string]string{"dir": w.dir}))
	w.Eventually(w.directories, testTimeout).Should(Equal(4))
	w.Eventually(func() string { return w.log("hello-r1") }, testTimeout).Should(ContainSubstring("the backend is broken"))
	w.Expect(w.addresses("hello")).To(BeEmpty(), "the state could not be saved")

	remove(w.ctx)
	a := w.waitReady("hello")
	w.expectConverged("hello")
	w.Expect(a.Status.History).To(HaveLen(1), "the first run saved the resources in the end")
	w.Expect(w.secrets()).NotTo(ContainElement(HavePrefix("capt-rescue-")))
	w.destroy("hello")
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
