package engine

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/command/binary"
	"github.com/appthrust/capt/internal/terraform/record"
)

// lasting is a resource that exists as soon as its creation starts, which takes as long as the file
// hold exists. The file events has what was really done.
const lasting = `
variable "dir" { type = string }
resource "terraform_data" "slow" {
  input = var.dir
  provisioner "local-exec" { command = "echo created >> ${self.input}/events; while [ -e ${self.input}/hold ]; do sleep 0.1; done" }
  provisioner "local-exec" {
    when    = destroy
    command = "echo destroyed >> ${self.input}/events"
  }
}
`

// startLasting starts the run of the workspace hello and waits until it creates its resource.
func (w *harness) startLasting(change ...func(*infrav1.WorkspaceTemplateApplySpec)) {
	w.t.Helper()
	w.template("lasting", lasting)
	w.touch("hold")
	w.apply("hello", "lasting", append(change, variables(map[string]string{"dir": w.dir}))...)
	w.Eventually(w.lastingEvents, testTimeout).Should(Equal("created"))
}

// lastingEvents returns what was really done with the resource of lasting.
func (w *harness) lastingEvents() string { return strings.ReplaceAll(w.file("events"), "\n", " ") }

// logOf returns the log of a run, or "" if there is no such run yet.
func (w *harness) logOf(runID string) string {
	w.t.Helper()
	if !slices.Contains(w.secrets(), record.SecretName(runID)) {
		return ""
	}
	return w.log(runID)
}

// runnerOf returns the identity of the runner of a run.
func (w *harness) runnerOf(runID string) *record.Identity {
	w.t.Helper()
	identity, err := record.RunIdentity(w.secret(record.SecretName(runID)))
	w.Expect(err).NotTo(HaveOccurred())
	return identity
}

// An upgrade of the manager must not cost a resource that takes long to create.
func TestStop_ofTheManager_isNoCancel(t *testing.T) {
	w := newHarnessWithManager(t)
	w.startLasting()
	runner := w.runnerOf("hello-r1")

	w.Expect(w.Stop(syscall.SIGTERM)).To(Succeed())
	w.Expect(runner.Alive()).To(BeTrue(), "the manager leaves the run")
	w.Expect(w.Start()).To(Succeed())
	w.remove("hold")

	a := w.waitReady("hello")
	w.Expect(a.Status.History).To(HaveLen(1), "the next manager finds the run")
	w.Expect(a.Status.History[0].Outcome).To(BeEquivalentTo("Succeeded"))
	w.Expect(w.lastingEvents()).To(Equal("created"))
	w.Expect(w.lease("hello").Spec.HolderIdentity).To(BeNil())
}

// The whole machine may be stopped.
func TestStop_ofTheRunner_isNoCancel(t *testing.T) {
	w := newHarnessWithManager(t)
	w.startLasting()
	runner := w.runnerOf("hello-r1")

	w.Expect(w.Stop(syscall.SIGTERM)).To(Succeed())
	w.Expect(syscall.Kill(runner.PID, syscall.SIGTERM)).To(Succeed())
	w.Eventually(func() string { return w.log("hello-r1") }, testTimeout).Should(ContainSubstring("The run is stopped. The apply in progress is completed first"))
	w.Expect(runner.Alive()).To(BeTrue())
	w.remove("hold")
	w.Expect(w.Start()).To(Succeed())

	a := w.waitReady("hello")
	w.Expect(a.Status.History).To(HaveLen(1))
	w.Expect(a.Status.History[0].Outcome).To(BeEquivalentTo("Succeeded"))
	w.Expect(w.lastingEvents()).To(Equal("created"))
}

// A cancel interrupts the tool although the runner was stopped before.
func TestStop_thenCancel(t *testing.T) {
	w := newHarnessWithManager(t)
	w.startLasting()
	runner := w.runnerOf("hello-r1")
	w.Expect(syscall.Kill(runner.PID, syscall.SIGTERM)).To(Succeed())
	w.Eventually(func() string { return w.log("hello-r1") }, testTimeout).Should(ContainSubstring("The apply in progress is completed first"))

	w.request("hello", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationCancel, Cancel: &infrav1.CancelOptions{Run: "hello-r1"}})
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.RunCanceledReason)
	w.Expect(w.get("hello").Status.History[0].Outcome).To(BeEquivalentTo("Canceled"))
}

// A tool whose runner dies has its time, and the next run waits for it.
func TestKill_ofTheRunner_leavesTheToolItsTime(t *testing.T) {
	w := newHarnessWithManager(t)
	w.startLasting()
	w.killRunner("hello")
	w.Eventually(func() string { return w.logOf("hello-r2") }, testTimeout).Should(ContainSubstring("Waiting for the tool of an earlier run to end"))
	w.remove("hold")
	a := w.waitReady("hello")
	w.Expect(a.Status.History[0].ID).To(Equal("hello-r2"))
	w.Expect(w.lastingEvents()).To(Equal("created"))
	w.Expect(w.addresses("hello")).To(HaveLen(1))
}

// The user cancels the run that waits for the tool of the lost one.
func TestKill_ofTheRunner_thenCancel(t *testing.T) {
	w := newHarnessWithManager(t)
	w.startLasting()
	w.killRunner("hello")
	w.Eventually(func() string { return w.logOf("hello-r2") }, testTimeout).Should(ContainSubstring("Waiting for the tool of an earlier run to end"))
	w.request("hello", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationCancel, Cancel: &infrav1.CancelOptions{Run: "hello-r2"}})
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.RunCanceledReason)
	tool := &binary.Tool{Path: "tofu"}
	w.Eventually(func() []int { return tool.Running(w.WorkDir) }, testTimeout).Should(BeEmpty())
}

// A taint that comes from an interrupt is not answered by a blind destroy.
func TestCancel_holdsThePlanThatDestroysWhatItLeft(t *testing.T) {
	w := newHarnessWithManager(t)
	w.startLasting()
	w.request("hello", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationCancel, Cancel: &infrav1.CancelOptions{Run: "hello-r1"}})
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.RunCanceledReason)
	w.remove("hold")
	w.requestRun("hello")
	c := w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	w.Expect(c.Message).To(ContainSubstring("1 to add, 0 to change, 1 to destroy"))
	w.Expect(c.Message).To(ContainSubstring("An earlier run was interrupted"))
	w.Expect(w.lastingEvents()).To(Equal("created"))

	w.decide("hello", w.get("hello").Status.Plan.ID, infrav1.DecisionApprove)
	a := w.waitReady("hello")
	w.Expect(a.Status.InterruptedBy).To(BeEmpty())
	// A tool runs no provisioner for a tainted resource that it destroys.
	w.Expect(w.lastingEvents()).To(Equal("created created"))
}
