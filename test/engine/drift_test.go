package engine

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

const files = `
terraform {
  required_providers { local = { source = "hashicorp/local" } }
}
variable "dir" { type = string }
resource "local_file" "f" {
  filename = "${var.dir}/f"
  content  = "as it should be"
}
`

// mirror makes the local provider installable without a network, and returns the
// path of the CLI configuration.
func (w *harness) mirror() string {
	w.t.Helper()
	config, err := testenv.MirrorProviders(w.WorkDir, testenv.LocalProvider)
	w.Expect(err).NotTo(HaveOccurred())
	return config
}

func TestDrift_isReportedAndRepaired(t *testing.T) {
	w := prepareWithManager(t)
	w.Env = []string{"TF_CLI_CONFIG_FILE=" + w.mirror()}
	w.Expect(w.Start()).To(Succeed())
	w.template("files", files)
	interval := &metav1.Duration{Duration: 10 * time.Second}
	w.apply("hello", "files", variables(map[string]string{"dir": w.dir}), func(s *infrav1.WorkspaceTemplateApplySpec) {
		s.Drift = &infrav1.DriftPolicy{Action: infrav1.DriftReport, Interval: interval}
	})
	w.waitReady("hello")
	w.Expect(w.file("f")).To(Equal("as it should be"))

	w.Expect(os.Remove(filepath.Join(w.dir, "f"))).To(Succeed())
	drift := w.waitReason("hello", infrav1.NoDriftCondition, infrav1.DriftDetectedReason)
	w.Expect(drift.Message).To(ContainSubstring("local_file.f"))
	a := w.get("hello")
	w.Expect(objecttest.Condition(a, infrav1.ReadyCondition).Status).To(BeEquivalentTo("True"), "drift does not affect Ready")
	w.Expect(a.Status.Drift.Resources).To(HaveLen(1))
	w.Expect(w.file("f")).To(BeEmpty(), "nothing is repaired with action Report")
	w.Eventually(w.events, testTimeout).Should(ContainElement(ContainSubstring(infrav1.DriftDetectedReason)))

	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Drift.Action = infrav1.DriftRepair })
	w.Eventually(func() string { return w.file("f") }, testTimeout).Should(Equal("as it should be"))
	w.Eventually(func() string { return string(objecttest.Condition(w.get("hello"), infrav1.NoDriftCondition).Status) }, testTimeout).Should(Equal("True"))
	w.destroy("hello")
	w.Expect(w.file("f")).To(BeEmpty())
}

// A resource that a refresh does not find is created again by the next plan. It may exist
// nevertheless, for example in another region.
func TestProtection_holdsWhatARefreshDoesNotFind(t *testing.T) {
	w := prepareWithManager(t)
	w.Env = []string{"TF_CLI_CONFIG_FILE=" + w.mirror()}
	w.Expect(w.Start()).To(Succeed())
	w.template("files", files, func(s *infrav1.WorkspaceSpec) { s.Protect = []infrav1.ProtectPattern{"local_file"} })
	w.apply("hello", "files", variables(map[string]string{"dir": w.dir}))
	w.waitReady("hello")

	w.Expect(os.Remove(filepath.Join(w.dir, "f"))).To(Succeed())
	w.requestRun("hello")
	held := w.waitReason("hello", infrav1.AppliedCondition, infrav1.ProtectedResourceReason)
	w.Expect(held.Message).To(ContainSubstring("or does not find them: local_file.f"))
	a := w.get("hello")
	w.Expect(a.Status.Plan.Blocked).To(Equal([]string{"local_file.f"}))
	w.Expect(a.Status.State.Resources).To(BeEquivalentTo(1))
	w.Expect(w.captctl("show", "plan", "hello").out).To(ContainSubstring("because the refresh did not find it"))
	w.Expect(w.file("f")).To(BeEmpty())
	w.allowDestroy("hello", "local_file.f")
	w.waitReady("hello")
	w.Expect(w.file("f")).To(Equal("as it should be"))

	// Policies see it as well.
	w.policy("guard", infrav1.PolicyRule{Name: "found", Action: infrav1.PolicyRequireApproval, Expression: `resource.reason == "not_found"`, Message: "It was not found"})
	w.reconsider("hello", infrav1.AppliedCondition)
	w.Expect(os.Remove(filepath.Join(w.dir, "f"))).To(Succeed())
	w.requestRun("hello")
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	w.Expect(w.file("f")).To(BeEmpty())
}
