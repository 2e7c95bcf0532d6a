package engine

import (
	"bytes"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

const many = `
variable "total" { type = number }
resource "terraform_data" "many" {
  count = var.total
  input = { name = "resource-${count.index}", note = "a text that makes the plan larger, and that differs: ${count.index}" }
}
`

// planIn runs captctl show plan as a process of its own, and returns its output and the memory
// that it used at most, in MiB.
func (w *harness) planIn(name string) (string, int64) {
	w.t.Helper()
	captctl, err := testenv.Built("captctl")
	w.Expect(err).NotTo(HaveOccurred())
	cmd := exec.CommandContext(w.ctx, captctl, "--kubeconfig", env.Kubeconfig, "-n", w.namespace, "plan", name)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	w.Expect(cmd.Run()).To(Succeed(), errs.String())
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	w.Expect(ok).To(BeTrue())
	return out.String(), usage.Maxrss >> 10
}

// A plan of 5,000 resources is planned, decided about by a policy, stored and shown. Attributes
// that do not fit into one object are only counted.
func TestLarge_plansAndShowsThousandsOfResources(t *testing.T) {
	w := newHarness(t)
	w.policy("count", infrav1.PolicyRule{
		Name: "many", Match: infrav1.PolicyMatchPlan, Action: infrav1.PolicyWarn, Expression: `plan.toAdd > 4000`, MessageExpression: `string(plan.toAdd) + " resources"`,
	})
	w.template("many", many)
	for name, total := range map[string]string{"small": "10", "large": "5000"} {
		w.apply(name, "many", manual, variables(map[string]string{"total": total}))
	}
	w.waitReason("small", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	w.waitReason("large", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)

	_, base := w.planIn("small")
	out, used := w.planIn("large")
	w.Expect(strings.Count(out, " will be created\n")).To(Equal(5000))
	w.Expect(out).To(And(ContainSubstring(`"resource-0"`), ContainSubstring("terraform_data.many[4999]"), ContainSubstring("more changed attributes)"), ContainSubstring("Warn WorkspacePolicy count, rule many: 5000 resources"), ContainSubstring("Plan: 5000 to add, 0 to change, 0 to destroy.\n")))
	t.Logf("captctl used %d MiB for 10 resources and %d MiB for 5,000", base, used)
	w.Expect(used-base).To(BeNumerically("<", 100), "MiB")

	plan := w.get("large").Status.Plan
	w.Expect(plan.Add).To(BeEquivalentTo(5000))
	w.Expect(len(plan.Changes)).To(BeNumerically("<=", 100), "the status is small")
	comment := w.captctl("show", "plan", "large", "-o", "markdown")
	w.Expect(len(comment.out)).To(BeNumerically("<", 65_536))
	w.Expect(comment.out).To(ContainSubstring(" more changes not shown."))
}
