package runnertest

import (
	"errors"
	"sync"
	"time"

	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

func (f *fixture) appliesAndReportsOutputs() {
	start := time.Now()
	run := f.start(f.request(terraform.OperationPlanAndApply, resource("first", "", "one", "created first")))
	result := f.result(run)
	f.t.Logf("time from request to result: %s, in the runner: %s",
		time.Since(start).Round(10*time.Millisecond), result.FinishedAt.Sub(result.StartedAt).Round(10*time.Millisecond))
	f.Expect(result.Outcome).To(gomega.Equal(terraform.OutcomeSucceeded), result.Diagnostics.Short())
	f.Expect(string(result.Outputs["first"].Value)).To(gomega.Equal(`"one"`))
	f.Expect(result.Plan.Add).To(gomega.Equal(1))
	f.Expect(f.probe.created("first")).To(gomega.Equal(1))
	f.Expect(f.state().Resources).To(gomega.Equal(1))
	f.expectUnlocked()
	f.expectLiveness(run, terraform.LivenessGone)

	repeated := f.finish(f.request(terraform.OperationPlanAndApply, resource("first", "", "one", "created first")))
	f.Expect(repeated.Outcome).To(gomega.Equal(terraform.OutcomeNoChanges), repeated.Diagnostics.Short())
	f.Expect(f.probe.created("first")).To(gomega.Equal(1))
}

func (f *fixture) startsOnce() {
	run := f.store(f.request(terraform.OperationPlanAndApply, resource("first", "", "one", "created first", "wait gate")))
	errs := make([]error, 4)
	var wait sync.WaitGroup
	for i := range errs {
		wait.Go(func() { errs[i] = f.Runner.Start(f.t.Context(), run) })
	}
	wait.Wait()
	f.Expect(errors.Join(errs...)).NotTo(gomega.HaveOccurred())
	f.expectArrivals(1)
	f.Expect(f.Runner.Start(f.t.Context(), run)).To(gomega.Succeed(), "Start of a running run has no effect")
	f.probe.open()
	f.Expect(f.result(run).Outcome).To(gomega.Equal(terraform.OutcomeSucceeded))
	f.expectLiveness(run, terraform.LivenessGone)
	previous := f.record(run).ResourceVersion

	f.Expect(f.Runner.Start(f.t.Context(), run)).To(gomega.Succeed(), "Start of a finished run has no effect")
	f.expectLiveness(run, terraform.LivenessGone)
	f.Expect(f.record(run).ResourceVersion).To(gomega.Equal(previous))
	f.Expect(f.probe.created("first")).To(gomega.Equal(1))
}

func (f *fixture) observesLiveness() {
	run := f.store(f.request(terraform.OperationPlanAndApply, resource("first", "", "one", "wait gate", "created first")))
	f.expectLiveness(run, terraform.LivenessPending)
	f.Expect(f.Runner.Start(f.t.Context(), run)).To(gomega.Succeed())
	f.Expect(f.Runner.Observe(f.t.Context(), run)).To(gomega.Equal(terraform.LivenessRunning))
	f.expectArrivals(1)
	f.Expect(f.Runner.Observe(f.t.Context(), run)).To(gomega.Equal(terraform.LivenessRunning))
	f.Eventually(func(g gomega.Gomega) {
		progress, err := record.Progress(f.record(run))
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(progress).NotTo(gomega.BeNil())
		g.Expect(progress.Current).To(gomega.HaveLen(1))
		g.Expect(progress.Current[0].Address).To(gomega.Equal("terraform_data.first"))
	}).Should(gomega.Succeed(), "progress is recorded")
	f.probe.open()
	f.expectLiveness(run, terraform.LivenessGone)
	f.Expect(record.Finished(f.record(run))).To(gomega.BeTrue(), "the result is recorded before the runner exits")
}

// gatedModule returns a module that waits at the gate after its first resource.
func gatedModule() []string {
	return []string{resource("first", "", "one", "created first"), resource("second", "first", "two", "wait gate", "created second"), resource("third", "second", "three", "created third")}
}

// resume starts another run and expects that all resources are in the state and
// that the lock is released.
func (f *fixture) resume() {
	f.t.Helper()
	previous := f.probe.arrived()
	run := f.start(f.request(terraform.OperationPlanAndApply, gatedModule()...))
	// Resources of earlier runs may still be waiting when this one arrives.
	f.expectArrivals(previous + 1)
	f.Eventually(f.probe.waiting).Should(gomega.Equal(1))
	f.probe.open()
	result := f.result(run)
	f.Expect(result.Outcome).To(gomega.Equal(terraform.OutcomeSucceeded), result.Diagnostics.Short())
	f.Expect(f.state().Resources).To(gomega.Equal(3))
	f.expectUnlocked()
}

// converge starts another run and expects that each resource was created exactly
// once.
func (f *fixture) converge() {
	f.t.Helper()
	f.resume()
	for _, name := range []string{"first", "second", "third"} {
		f.Expect(f.probe.created(name)).To(gomega.Equal(1), "creations of %s", name)
	}
}

func (f *fixture) stopsGracefully() {
	run := f.start(f.request(terraform.OperationPlanAndApply, gatedModule()...))
	f.expectArrivals(1)
	f.Expect(f.Runner.Stop(f.t.Context(), run, true)).To(gomega.Succeed())
	f.Expect(f.Runner.Stop(f.t.Context(), run, true)).To(gomega.Succeed(), "Stop is idempotent")
	result := f.result(run)
	f.Expect(result.Outcome).To(gomega.Equal(terraform.OutcomeInterrupted), result.Diagnostics.Short())
	f.expectLiveness(run, terraform.LivenessGone)
	f.Expect(f.Runner.Stop(f.t.Context(), run, true)).To(gomega.Succeed(), "Stop of a finished run has no effect")
	f.Expect(f.state().Resources).To(gomega.BeNumerically(">=", 1), "the created resources are in the state")
	f.expectUnlocked()
	f.converge()
}

func (f *fixture) timesOut() {
	request := f.request(terraform.OperationPlanAndApply, gatedModule()...)
	// The run must create the first resource within this time.
	request.Timeout = 10 * time.Second
	run := f.start(request)
	result := f.result(run)
	f.Expect(result.Outcome).To(gomega.Equal(terraform.OutcomeTimedOut), result.Diagnostics.Short())
	f.expectLiveness(run, terraform.LivenessGone)
	f.expectUnlocked()
	f.converge()
}

// deferredStop is what the log says about a stop of a run that applies.
const deferredStop = "The apply in progress is completed first"

// startStopped starts a run that has an hour, and stops it during the apply as a node does that
// is drained.
func (f *fixture) startStopped() terraform.Run {
	f.t.Helper()
	request := f.request(terraform.OperationPlanAndApply, gatedModule()...)
	request.Timeout = time.Hour
	run := f.start(request)
	f.expectArrivals(1)
	identity, err := record.RunIdentity(f.record(run))
	f.Expect(err).NotTo(gomega.HaveOccurred())
	f.Terminate(f.t, run, identity)
	f.Eventually(func() ([]byte, error) { return record.Log(f.record(run)) }).Should(gomega.ContainSubstring(deferredStop))
	f.Expect(f.Runner.Observe(f.t.Context(), run)).To(gomega.Equal(terraform.LivenessRunning))
	return run
}

// completesAnApplyThatIsStopped stops a run without canceling it.
func (f *fixture) completesAnApplyThatIsStopped() {
	run := f.startStopped()
	// As if the workspace was deleted and its resources are retained.
	f.Expect(f.Runner.Stop(f.t.Context(), run, false)).To(gomega.Succeed())
	f.probe.open()
	f.Expect(f.result(run).Outcome).To(gomega.Equal(terraform.OutcomeSucceeded))
	f.expectLiveness(run, terraform.LivenessGone)
	f.Expect(f.state().Resources).To(gomega.Equal(3))
	f.expectUnlocked()
	for _, name := range []string{"first", "second", "third"} {
		f.Expect(f.probe.created(name)).To(gomega.Equal(1), "creations of %s", name)
	}
}

// cancelsARunThatIsStopped cancels a run that completes its apply.
func (f *fixture) cancelsARunThatIsStopped() {
	run := f.startStopped()
	f.Expect(f.Runner.Stop(f.t.Context(), run, true)).To(gomega.Succeed())
	f.Expect(f.result(run).Outcome).To(gomega.Equal(terraform.OutcomeInterrupted))
	f.expectLiveness(run, terraform.LivenessGone)
	f.expectUnlocked()
	f.converge()
}

// recoversFromKilledRunner kills a runner during an apply. The tool saves its
// state, and the next run continues from there.
func (f *fixture) recoversFromKilledRunner() {
	f.killDuringApply()
	f.converge()
}

// killDuringApply starts a run and kills its runner during the apply.
func (f *fixture) killDuringApply() {
	f.t.Helper()
	run := f.start(f.request(terraform.OperationPlanAndApply, gatedModule()...))
	f.expectArrivals(1)
	identity, err := record.RunIdentity(f.record(run))
	f.Expect(err).NotTo(gomega.HaveOccurred())
	f.Expect(identity).NotTo(gomega.BeNil(), "a runner records its identity before it changes anything")
	f.Kill(f.t, run, identity)
	f.expectLiveness(run, terraform.LivenessGone)
	f.Expect(record.Finished(f.record(run))).To(gomega.BeFalse())
	if recorded := record.State(f.record(run)); recorded != nil {
		f.known.StateInfo = *recorded
	}
	f.known.Unconfirmed = true
}

func (f *fixture) ignoresARunWithoutRequest() {
	run := f.store(f.request(terraform.OperationPlanAndApply, resource("first", "", "one", "created first")))
	f.Expect(f.Client.Delete(f.t.Context(), f.record(run))).To(gomega.Succeed())
	// Start may report the missing request, but need not.
	_ = f.Runner.Start(f.t.Context(), run)
	f.Eventually(func() error {
		_, err := f.Runner.Observe(f.t.Context(), run)
		return err
	}).Should(gomega.MatchError(apierrors.IsNotFound, "is not found"))
	f.Expect(f.Runner.Stop(f.t.Context(), run, true)).To(gomega.Or(gomega.Succeed(), gomega.MatchError(apierrors.IsNotFound, "is not found")))
	f.Expect(f.Runner.Forget(f.t.Context(), run)).To(gomega.Succeed())

	f.succeed(f.request(terraform.OperationPlanAndApply, resource("second", "", "two", "created second")))
	f.Expect(f.probe.created("first")).To(gomega.BeZero())
}

func (f *fixture) forgetsRepeatedly() {
	run := f.store(f.request(terraform.OperationPlanAndApply, resource("first", "", "one", "created first")))
	f.Expect(f.Runner.Forget(f.t.Context(), run)).To(gomega.Succeed(), "Forget of a run that never started has no effect")
	f.Expect(f.Runner.Start(f.t.Context(), run)).To(gomega.Succeed())
	f.Expect(f.result(run).Outcome).To(gomega.Equal(terraform.OutcomeSucceeded))
	f.expectLiveness(run, terraform.LivenessGone)
	for range 2 {
		f.Expect(f.Runner.Forget(f.t.Context(), run)).To(gomega.Succeed())
		f.Expect(f.Runner.Remove(f.t.Context(), f.workspace)).To(gomega.Succeed())
	}
	f.Expect(record.Finished(f.record(run))).To(gomega.BeTrue(), "Forget keeps the result")
	f.expectLiveness(run, terraform.LivenessGone)
}

// continuesAfterAFailedFirstApply fails the first run of a workspace after it created
// a resource. The run reports the state, and the next one continues from it.
func (f *fixture) continuesAfterAFailedFirstApply() {
	first, second := resource("first", "", "one", "created first"), resource("second", "first", "two", "fail now", "created second")
	failed := f.finish(f.request(terraform.OperationPlanAndApply, first, second))
	f.Expect(failed.Outcome).To(gomega.Equal(terraform.OutcomeFailed))
	f.Expect(failed.State.Lineage).NotTo(gomega.BeEmpty(), "a failed run reports its state")
	f.Expect(failed.State.Resources).To(gomega.Equal(2), "the second one is tainted")
	f.Expect(failed.StateUncertain).To(gomega.BeFalse())
	f.expectUnlocked()

	f.succeed(f.request(terraform.OperationPlanAndApply, first, resource("second", "first", "two", "created second")))
	f.Expect(f.state().Lineage).To(gomega.Equal(failed.State.Lineage))
	for _, name := range []string{"first", "second"} {
		f.Expect(f.probe.created(name)).To(gomega.Equal(1), "creations of %s", name)
	}
}

// refusesAnotherState changes nothing if the state is not the known one.
func (f *fixture) refusesAnotherState() {
	module := resource("first", "", "one", "created first")
	f.succeed(f.request(terraform.OperationPlanAndApply, module))
	for problem, known := range map[terraform.StateProblem]terraform.StateInfo{
		terraform.StateForeign:  {Lineage: "other", Serial: 1, Resources: 1},
		terraform.StateOutdated: {Lineage: f.known.Lineage, Serial: f.known.Serial + 1, Resources: 1},
	} {
		for _, operation := range []terraform.Operation{terraform.OperationPlanAndApply, terraform.OperationDestroy} {
			request := f.request(operation, resource("second", "", "two", "created second"))
			request.State.StateInfo = known
			result := f.finish(request)
			f.Expect(result.StateProblem).To(gomega.Equal(problem), result.Diagnostics.Short())
			f.Expect(result.Class).To(gomega.Equal(terraform.ClassTerminal))
		}
	}
	f.Expect(f.state().Addresses).To(gomega.ConsistOf("terraform_data.first"))
	f.Expect(f.probe.created("second")).To(gomega.BeZero())
	f.expectUnlocked()
}
