package runnertest

import (
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// TakesOverWithoutTheTool is for executors whose runner and tool can die at the
// same moment, as they do with their machine. The harness kills both. What the
// tool made after it saved its state last, which it does every 20 seconds, is
// then known to nobody and made again; everything else holds.
func TakesOverWithoutTheTool(t *testing.T, h Harness) {
	w := newTrial(t, h)
	w.die()
	w.goesOn()
	w.Expect(w.witness.made("first")).To(gomega.BeElementOf(1, 2))
	w.Expect(w.witness.made("second")).To(gomega.Equal(1))
	w.Expect(w.witness.made("third")).To(gomega.Equal(1))
}

// WaitsForASilentMachine is for executors whose runs are on other machines: one
// that does not answer proves nothing.
func WaitsForASilentMachine(t *testing.T, h Harness, freeze, thaw func() error) {
	w := newTrial(t, h)
	run := w.start(w.request(terraform.OperationPlanAndApply, twoSteps()...))
	w.reaches(1)
	w.Expect(freeze()).To(gomega.Succeed())
	thawed := false
	defer func() {
		if !thawed {
			_ = thaw()
		}
	}()
	w.Expect(w.Runner.Stop(t.Context(), run)).To(gomega.Succeed())
	w.Consistently(func(g gomega.Gomega) {
		g.Expect(w.Runner.Observe(t.Context(), run)).To(gomega.Equal(terraform.LivenessRunning))
		g.Expect(record.Finished(w.record(run))).To(gomega.BeFalse())
	}, 3*time.Second, often).Should(gomega.Succeed())
	w.Expect(thaw()).To(gomega.Succeed())
	thawed = true
	w.Expect(w.result(run).Outcome).To(gomega.Equal(terraform.OutcomeInterrupted))
	w.becomes(run, terraform.LivenessGone)
	w.converges()
}
