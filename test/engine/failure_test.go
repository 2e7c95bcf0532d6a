package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

const gated = `
variable "dir" { type = string }
resource "terraform_data" "gated" {
  input = var.dir
  provisioner "local-exec" { command = "test -e ${var.dir}/open" }
  provisioner "local-exec" {
    when    = destroy
    command = "test -e ${self.input}/open-destroy"
  }
}
`

func (w *harness) touch(name string) {
	w.Expect(os.WriteFile(filepath.Join(w.dir, name), nil, 0o600)).To(Succeed())
}

func (w *harness) remove(name string) {
	w.Expect(os.RemoveAll(filepath.Join(w.dir, name))).To(Succeed())
}

func TestFailure_isSummarizedAndRetried(t *testing.T) {
	w := newHarness(t)
	w.template("gated", gated)
	w.apply("hello", "gated", variables(map[string]string{"dir": w.dir}))

	failed := w.waitReason("hello", infrav1.AppliedCondition, infrav1.RetryingReason)
	w.Expect(failed.Message).To(ContainSubstring("main.tf:"))
	w.Expect(failed.Message).To(ContainSubstring("local-exec"))
	w.Expect(len(failed.Message)).To(BeNumerically("<", 1000), "the message is short")
	w.Expect(w.get("hello").Status.Failure.Attempts).To(BeNumerically(">=", 1))

	w.touch("open")
	a := w.waitReady("hello")
	w.Expect(a.Status.Failure).To(BeNil())

	// A failed destroy is reported, and retried until it succeeds.
	w.delete("hello")
	destroying := w.waitReason("hello", infrav1.DestroyedCondition, infrav1.RetryingReason)
	w.Expect(destroying.Message).To(ContainSubstring("local-exec"))
	w.touch("open-destroy")
	w.waitDeleted("hello")
}

func TestFailure_isNotRetriedBeyondTheLimit(t *testing.T) {
	w := newHarness(t)
	w.template("gated", gated)
	limit := int32(1)
	w.apply("hello", "gated", variables(map[string]string{"dir": w.dir}), func(s *infrav1.WorkspaceTemplateApplySpec) { s.Retry.Limit = &limit })
	w.Eventually(func() string { return objecttest.Condition(w.get("hello"), infrav1.AppliedCondition).Message }, testTimeout).
		Should(ContainSubstring("gave up after 2 attempts"))

	w.touch("open")
	w.requestRun("hello")
	w.waitReady("hello")
}

func TestFailure_waitsForAChangeIfARetryCannotHelp(t *testing.T) {
	w := newHarness(t)
	w.template("no-provider", `
terraform {
  required_providers { absent = { source = "example.com/unknown/absent" } }
}
resource "absent_thing" "x" {}
`)
	w.template("no-argument", `resource "terraform_data" "x" { colour = "red" }`)
	w.apply("no-argument", "no-argument")
	w.apply("no-provider", "no-provider", func(s *infrav1.WorkspaceTemplateApplySpec) { s.Retry.Limit = new(int32) })

	c := w.waitReason("no-argument", infrav1.AppliedCondition, infrav1.RunFailedReason)
	w.Expect(c.Message).To(ContainSubstring("main.tf:1"))
	w.Expect(c.Message).To(ContainSubstring("colour"))
	w.Eventually(func() string {
		c := objecttest.Condition(w.get("no-provider"), infrav1.AppliedCondition)
		return c.Reason + " " + c.Message
	}, testTimeout).Should(And(Or(HavePrefix(infrav1.RunFailedReason), HavePrefix(infrav1.RetryingReason)), ContainSubstring("example.com/unknown/absent")))
	w.Expect(w.get("no-argument").Status.Failure.NextAt.IsZero()).To(BeTrue())
	// Nothing was created, so the deletion needs no destroy.
	w.destroy("no-argument")
}

const slow = `
variable "dir" { type = string }
resource "terraform_data" "quick" { input = 1 }
resource "terraform_data" "slow" {
  input      = terraform_data.quick.output
  provisioner "local-exec" { command = "touch ${var.dir}/started; sleep 300" }
}
`

func TestRun_showsProgressAndCanBeCanceled(t *testing.T) {
	w := newHarness(t)
	w.template("slow", slow)
	w.apply("hello", "slow", variables(map[string]string{"dir": w.dir}))

	var progress *infrav1.RunStatus
	w.Eventually(func(g Gomega) {
		progress = w.get("hello").Status.Run
		g.Expect(progress).NotTo(BeNil())
		g.Expect(progress.Progress).NotTo(BeNil())
		g.Expect(progress.Progress.Phase).To(Equal("Applying"))
		g.Expect(progress.Progress.Done).To(BeEquivalentTo(1))
		g.Expect(progress.Progress.Total).To(BeEquivalentTo(2))
		g.Expect(progress.Progress.Current).To(HaveLen(1))
	}, testTimeout).Should(Succeed())
	w.Expect(progress.Progress.Current[0].Address).To(Equal("terraform_data.slow"))
	w.Expect(objecttest.Condition(w.get("hello"), infrav1.AppliedCondition).Message).To(ContainSubstring("1 of 2 resources"))
	w.Eventually(func() string { return w.log(progress.ID) }, testTimeout).Should(ContainSubstring("terraform_data.slow: Creating"), "the log can be followed")

	w.request("hello", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationCancel, Cancel: &infrav1.CancelOptions{Run: progress.ID}})
	canceled := w.waitReason("hello", infrav1.AppliedCondition, infrav1.RunCanceledReason)
	w.Expect(canceled.Message).To(ContainSubstring(progress.ID))
	w.Expect(w.get("hello").Status.History[0].Outcome).To(BeEquivalentTo("Canceled"))

	w.destroy("hello")
}

func TestRun_timesOut(t *testing.T) {
	w := newHarness(t)
	w.template("slow", slow)
	w.apply("hello", "slow", variables(map[string]string{"dir": w.dir}), func(s *infrav1.WorkspaceTemplateApplySpec) {
		s.Timeout, s.Retry.Limit = &metav1.Duration{Duration: 3 * time.Second}, new(int32)
	})
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.RunTimedOutReason)
}

func TestDelete_stopsARunFirst(t *testing.T) {
	w := newHarness(t)
	w.template("slow", slow)
	w.apply("hello", "slow", variables(map[string]string{"dir": w.dir}))
	w.Eventually(filepath.Join(w.dir, "started"), testTimeout).Should(BeAnExistingFile())

	w.destroy("hello")
	w.Expect(w.secrets()).To(BeEmpty())
}

func TestDelete_retainKeepsTheResourcesAndNamesTheState(t *testing.T) {
	w := newHarness(t)
	w.hello("several", several, variables(map[string]string{"dir": w.dir}), func(s *infrav1.WorkspaceTemplateApplySpec) { s.RetainWorkspaceOnDelete = true })

	w.destroy("hello")
	w.Expect(w.directories()).To(Equal(4))
	w.Expect(w.secrets()).To(ConsistOf("hello-connection", "tfstate-default-hello-ws"))
	for _, name := range []string{"hello-connection", "tfstate-default-hello-ws"} {
		w.Expect(w.secret(name).OwnerReferences).To(BeEmpty(), "the garbage collector keeps %s", name)
	}
	w.Eventually(w.events, testTimeout).Should(ContainElement(ContainSubstring("state in Secret tfstate-default-hello-ws")))

	// A new workspace of the same name continues with the state.
	w.apply("hello", "several", variables(map[string]string{"dir": w.dir}))
	a := w.waitReady("hello")
	w.Expect(a.Status.History[0].Outcome).To(BeEquivalentTo("NoChanges"))
	w.destroy("hello")
	w.Expect(w.directories()).To(BeZero())
	w.Expect(w.secrets()).To(BeEmpty())
}

// events returns the events of the namespace.
func (w *harness) events() []string {
	var list eventsv1.EventList
	w.Expect(env.Client.List(w.ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	var all []string
	for _, e := range list.Items {
		all = append(all, strings.Join([]string{e.Type, e.Reason, e.Note}, " "))
	}
	return all
}

func TestOutputs_connectionSecret(t *testing.T) {
	w := newHarness(t)
	w.hello("greeting", greeting, variables(map[string]string{"name": "world"}))

	w.Expect(env.Client.Delete(w.ctx, w.secret("hello-connection"))).To(Succeed())
	w.Eventually(w.secrets, testTimeout).Should(ContainElement("hello-connection"), "a deleted Secret is restored")
	w.Expect(w.get("hello").Status.History).To(HaveLen(1), "without a run")

	w.apply("second", "greeting", variables(map[string]string{"name": "world"}), func(s *infrav1.WorkspaceTemplateApplySpec) {
		s.WriteConnectionSecretToRef.Name = "hello-connection"
	})
	conflict := w.waitReason("second", infrav1.OutputsWrittenCondition, infrav1.SecretConflictReason)
	w.Expect(conflict.Message).To(ContainSubstring("hello-connection"))

	w.template("unicode", "output \"grüße\" { value = \"x\" }\noutput \"plain\" { value = \"y\" }\n")
	w.apply("unicode", "unicode")
	c := w.waitReason("unicode", infrav1.OutputsWrittenCondition, infrav1.InvalidOutputNameReason)
	w.Expect(c.Message).To(ContainSubstring("grüße"))
	w.Expect(w.secret("unicode-connection").Data).To(HaveKey("plain"), "the others are written")
}

func TestHistory_isKeptToItsLimit(t *testing.T) {
	w := newHarness(t)
	w.template("greeting", greeting)
	limit := int32(2)
	w.apply("hello", "greeting", variables(map[string]string{"name": "world"}), func(s *infrav1.WorkspaceTemplateApplySpec) { s.HistoryLimit = &limit })
	w.waitReady("hello")
	for range 3 {
		w.waitPhase(w.requestRun("hello"), infrav1.OperationSucceeded)
		w.waitReady("hello")
	}
	w.Expect(w.get("hello").Status.History).To(HaveLen(2))
	w.Eventually(func() []string { return w.secretsWith("capt-run-") }, testTimeout).Should(HaveLen(2))
	w.Expect(w.get("hello").Status.Runs).To(BeEquivalentTo(4))
}
