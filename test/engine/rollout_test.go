package engine

import (
	"fmt"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

// moduleOf returns a module whose output tells its version. It fails where it must not be applied.
func moduleOf(version, fails string) string {
	return fmt.Sprintf(`
variable "name" { type = string }
resource "terraform_data" "it" {
  input = var.name
  lifecycle {
    precondition {
      condition     = var.name != %q
      error_message = "version %s does not fit ${var.name}"
    }
  }
}
output "version" { value = "%s of ${terraform_data.it.output}" }
`, fails, version, version)
}

// waitRollout waits for a condition of the template fleet, and returns its message.
func (w *harness) waitRollout(status metav1.ConditionStatus, reason string) string {
	w.t.Helper()
	template := &infrav1.WorkspaceTemplate{}
	var c *metav1.Condition
	w.Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: "fleet"}, template)).To(Succeed())
		c = meta.FindStatusCondition(template.Status.Conditions, infrav1.RolledOutCondition)
		g.Expect(c).NotTo(BeNil())
		g.Expect(c.ObservedGeneration).To(Equal(template.Generation))
		g.Expect(string(c.Status)+" "+c.Reason).To(Equal(string(status)+" "+reason), c.Message)
	}).Should(Succeed())
	return c.Message
}

// waitVersion waits until a workspace has applied a version.
func (w *harness) waitVersion(name, version string) {
	w.t.Helper()
	w.Eventually(func() infrav1.Value { return w.get(name).Status.Outputs["version"] }).Should(Equal(value(version)), name)
}

func TestRollout_stopsAtTheStageThatFails(t *testing.T) {
	w := newHarnessWithManager(t)
	w.template("fleet", moduleOf("1", "nobody"))
	objects := objecttest.New(t, env.Client)
	template := &infrav1.WorkspaceTemplate{ObjectMeta: w.meta("fleet")}
	half := intstr.FromString("50%")
	objects.Update(template, func() {
		template.Spec.Rollout = &infrav1.TemplateRollout{Stages: []infrav1.RolloutStage{
			{Name: "canary", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"wave": "canary"}}},
			{Name: "half", Workspaces: &half},
		}}
	})
	names := []string{"a", "b", "c", "d", "e", "f"}
	for i, name := range names {
		w.apply(name, "fleet", func(s *infrav1.WorkspaceTemplateApplySpec) {
			s.Variables = map[string]infrav1.Value{"name": value(name)}
		})
		if i < 2 {
			w.change(name, func(a *infrav1.WorkspaceTemplateApply) { a.Labels["wave"] = "canary" })
		}
	}
	for _, name := range names {
		w.waitReady(name)
	}
	w.waitRollout(metav1.ConditionTrue, infrav1.RolledOutCondition)
	runs := map[string]int64{}
	for _, name := range names {
		runs[name] = w.get(name).Status.Runs
	}

	w.Expect(w.Stop(syscall.SIGKILL)).To(Succeed())
	w.changeTemplate("fleet", func(s *infrav1.WorkspaceSpec) { s.ForProvider.Module = moduleOf("2", "b") })
	w.Expect(w.Start()).To(Succeed())
	w.waitVersion("a", "2 of a")
	w.restart()

	w.Expect(w.waitRollout(metav1.ConditionFalse, infrav1.RolloutFailedReason)).To(And(ContainSubstring("Stage canary"), ContainSubstring("/b"), ContainSubstring("version 2 does not fit b")))
	w.change("f", func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.Variables = map[string]infrav1.Value{"name": value("changed")}
	})
	w.waitVersion("f", "1 of changed")
	for _, name := range names[2:5] {
		w.Expect(w.get(name).Status.Runs).To(Equal(runs[name]), "%s is not in the stage", name)
	}
	status := w.captctl("rollout", "status", "fleet")
	w.Expect(status.out).To(And(ContainSubstring("Stage canary"), MatchRegexp(`(?m)b +.*yes +no`), MatchRegexp(`(?m)f +.*no +yes`)))

	w.captctl("rollout", "undo", "fleet")
	w.waitRollout(metav1.ConditionTrue, infrav1.RolledOutCondition)
	w.waitVersion("a", "1 of a")
	w.Expect(w.waitReady("b").Status.Outputs["version"]).To(Equal(value("1 of b")))

	w.changeTemplate("fleet", func(s *infrav1.WorkspaceSpec) { s.ForProvider.Module = moduleOf("3", "nobody") })
	w.waitRollout(metav1.ConditionTrue, infrav1.RolledOutCondition)
	for _, name := range names[:5] {
		w.waitVersion(name, "3 of "+name)
	}
	objects.Update(template, func() { template.Spec.Rollout = nil })
	w.Eventually(func() string { return w.get("a").Annotations[infrav1.TemplateRevisionAnnotation] }).Should(BeEmpty())
}
