package runnertest

import (
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// RecoversFromKilledTool is for executors whose runner and tool can be killed at
// the same moment, as in a crash of their machine. The harness kills both. The
// tool saves its state every 20 seconds. Resources that it created since the
// last save are not in the state, and are created a second time.
func RecoversFromKilledTool(t *testing.T, h Harness) {
	f := newFixture(t, h, newKubernetes)
	f.killDuringApply()
	f.resume()
	f.Expect(f.probe.created("first")).To(gomega.BeElementOf(1, 2))
	f.Expect(f.probe.created("second")).To(gomega.Equal(1))
	f.Expect(f.probe.created("third")).To(gomega.Equal(1))
}

// WaitsForUnresponsiveNode is for executors whose runs are on other machines. An
// unresponsive machine does not prove that its runs have ended.
func WaitsForUnresponsiveNode(t *testing.T, h Harness, freeze, thaw func() error) {
	f := newFixture(t, h, newKubernetes)
	run := f.start(f.request(terraform.OperationPlanAndApply, gatedModule()...))
	f.expectArrivals(1)
	f.Expect(freeze()).To(gomega.Succeed())
	thawed := false
	defer func() {
		if !thawed {
			_ = thaw()
		}
	}()
	f.Expect(f.Runner.Stop(t.Context(), run, true)).To(gomega.Succeed())
	// A node that does not respond causes no event.
	f.Consistently(func(g gomega.Gomega) {
		g.Expect(f.Runner.Observe(t.Context(), run)).To(gomega.Equal(terraform.LivenessRunning))
		g.Expect(record.Finished(f.record(run))).To(gomega.BeFalse())
	}, 3*time.Second).Should(gomega.Succeed())
	f.Expect(thaw()).To(gomega.Succeed())
	thawed = true
	f.Expect(f.result(run).Outcome).To(gomega.Equal(terraform.OutcomeInterrupted))
	f.expectLiveness(run, terraform.LivenessGone)
	f.converge()
}
