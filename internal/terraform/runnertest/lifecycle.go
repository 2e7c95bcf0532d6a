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

func (w *trial) appliesAndReportsOutputs() {
	began := time.Now()
	run := w.start(w.request(terraform.OperationPlanAndApply, resource("first", "", "one", "made first")))
	result := w.result(run)
	w.t.Logf("from the request to the result: %s, of that the runner: %s",
		time.Since(began).Round(10*time.Millisecond), result.FinishedAt.Sub(result.StartedAt).Round(10*time.Millisecond))
	w.Expect(result.Outcome).To(gomega.Equal(terraform.OutcomeSucceeded), result.Diagnostics.Short())
	w.Expect(string(result.Outputs["first"].Value)).To(gomega.Equal(`"one"`))
	w.Expect(result.Plan.Add).To(gomega.Equal(1))
	w.Expect(w.witness.made("first")).To(gomega.Equal(1))
	w.Expect(w.state().Resources).To(gomega.Equal(1))
	w.unlocked()
	w.becomes(run, terraform.LivenessGone)

	again := w.finish(w.request(terraform.OperationPlanAndApply, resource("first", "", "one", "made first")))
	w.Expect(again.Outcome).To(gomega.Equal(terraform.OutcomeNoChanges), again.Diagnostics.Short())
	w.Expect(w.witness.made("first")).To(gomega.Equal(1))
}

func (w *trial) startsOnce() {
	run := w.store(w.request(terraform.OperationPlanAndApply, resource("first", "", "one", "made first", "await gate")))
	errs := make([]error, 4)
	var wait sync.WaitGroup
	for i := range errs {
		wait.Go(func() { errs[i] = w.Runner.Start(w.t.Context(), run) })
	}
	wait.Wait()
	w.Expect(errors.Join(errs...)).NotTo(gomega.HaveOccurred())
	w.reaches(1)
	w.Expect(w.Runner.Start(w.t.Context(), run)).To(gomega.Succeed(), "starting a run that goes on changes nothing")
	w.witness.open()
	w.Expect(w.result(run).Outcome).To(gomega.Equal(terraform.OutcomeSucceeded))
	w.becomes(run, terraform.LivenessGone)
	before := w.record(run).ResourceVersion

	w.Expect(w.Runner.Start(w.t.Context(), run)).To(gomega.Succeed(), "starting a run that has ended changes nothing")
	w.becomes(run, terraform.LivenessGone)
	w.Expect(w.record(run).ResourceVersion).To(gomega.Equal(before))
	w.Expect(w.witness.made("first")).To(gomega.Equal(1))
}

func (w *trial) observesTheRun() {
	run := w.store(w.request(terraform.OperationPlanAndApply, resource("first", "", "one", "await gate", "made first")))
	w.becomes(run, terraform.LivenessPending)
	w.Expect(w.Runner.Start(w.t.Context(), run)).To(gomega.Succeed())
	w.Expect(w.Runner.Observe(w.t.Context(), run)).To(gomega.Equal(terraform.LivenessRunning))
	w.reaches(1)
	w.Expect(w.Runner.Observe(w.t.Context(), run)).To(gomega.Equal(terraform.LivenessRunning))
	w.Eventually(func(g gomega.Gomega) {
		progress, err := record.Progress(w.record(run))
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(progress).NotTo(gomega.BeNil())
		g.Expect(progress.Current).To(gomega.HaveLen(1))
		g.Expect(progress.Current[0].Address).To(gomega.Equal("terraform_data.first"))
	}, w.Patience, often).Should(gomega.Succeed(), "what goes on is to be seen")
	w.witness.open()
	w.becomes(run, terraform.LivenessGone)
	w.Expect(record.Finished(w.record(run))).To(gomega.BeTrue(), "the result is there before the runner is gone")
}

// twoSteps makes one resource and waits before it makes another.
func twoSteps() []string {
	return []string{resource("first", "", "one", "made first"), resource("second", "first", "two", "await gate", "made second"), resource("third", "second", "three", "made third")}
}

// goesOn runs once more, until everything is made and the lock is free.
func (w *trial) goesOn() {
	w.t.Helper()
	before := w.witness.arrived()
	run := w.start(w.request(terraform.OperationPlanAndApply, twoSteps()...))
	// Whoever waited before is gone when the next one comes.
	w.reaches(before + 1)
	w.Eventually(w.witness.waiting, w.Patience, often).Should(gomega.Equal(1))
	w.witness.open()
	result := w.result(run)
	w.Expect(result.Outcome).To(gomega.Equal(terraform.OutcomeSucceeded), result.Diagnostics.Short())
	w.Expect(w.state().Resources).To(gomega.Equal(3))
	w.unlocked()
}

// converges goes on and checks that everything was made exactly once.
func (w *trial) converges() {
	w.t.Helper()
	w.goesOn()
	for _, name := range []string{"first", "second", "third"} {
		w.Expect(w.witness.made(name)).To(gomega.Equal(1), "%s is to be made once", name)
	}
}

func (w *trial) stopsGracefully() {
	run := w.start(w.request(terraform.OperationPlanAndApply, twoSteps()...))
	w.reaches(1)
	w.Expect(w.Runner.Stop(w.t.Context(), run)).To(gomega.Succeed())
	w.Expect(w.Runner.Stop(w.t.Context(), run)).To(gomega.Succeed(), "asking twice is asking once")
	result := w.result(run)
	w.Expect(result.Outcome).To(gomega.Equal(terraform.OutcomeInterrupted), result.Diagnostics.Short())
	w.becomes(run, terraform.LivenessGone)
	w.Expect(w.Runner.Stop(w.t.Context(), run)).To(gomega.Succeed(), "a run that has ended is stopped")
	w.Expect(w.state().Resources).To(gomega.BeNumerically(">=", 1), "what was made is in the state")
	w.unlocked()
	w.converges()
}

func (w *trial) timesOut() {
	request := w.request(terraform.OperationPlanAndApply, twoSteps()...)
	request.Timeout = 4 * time.Second
	run := w.start(request)
	result := w.result(run)
	w.Expect(result.Outcome).To(gomega.Equal(terraform.OutcomeTimedOut), result.Diagnostics.Short())
	w.becomes(run, terraform.LivenessGone)
	w.unlocked()
	w.converges()
}

// takesOverFromTheDead kills a runner in the middle of an apply. The tool saves
// what it has done, and the next run goes on from there.
func (w *trial) takesOverFromTheDead() {
	w.die()
	w.converges()
}

// die kills a runner in the middle of an apply.
func (w *trial) die() {
	w.t.Helper()
	run := w.start(w.request(terraform.OperationPlanAndApply, twoSteps()...))
	w.reaches(1)
	identity, err := record.RunIdentity(w.record(run))
	w.Expect(err).NotTo(gomega.HaveOccurred())
	w.Expect(identity).NotTo(gomega.BeNil(), "a run says who carries it out before it does anything")
	w.Kill(w.t, run, identity)
	w.becomes(run, terraform.LivenessGone)
	w.Expect(record.Finished(w.record(run))).To(gomega.BeFalse())
}

func (w *trial) doesNothingWithoutARequest() {
	run := w.store(w.request(terraform.OperationPlanAndApply, resource("first", "", "one", "made first")))
	w.Expect(w.Client.Delete(w.t.Context(), w.record(run))).To(gomega.Succeed())
	// Whether somebody notices now or later is all the same.
	_ = w.Runner.Start(w.t.Context(), run)
	w.Eventually(func() error {
		_, err := w.Runner.Observe(w.t.Context(), run)
		return err
	}, w.Patience, often).Should(gomega.MatchError(apierrors.IsNotFound, "is not found"))
	w.Expect(w.Runner.Stop(w.t.Context(), run)).To(gomega.Or(gomega.Succeed(), gomega.MatchError(apierrors.IsNotFound, "is not found")))
	w.Expect(w.Runner.Forget(w.t.Context(), run)).To(gomega.Succeed())

	w.succeed(w.request(terraform.OperationPlanAndApply, resource("second", "", "two", "made second")))
	w.Expect(w.witness.made("first")).To(gomega.BeZero())
}

func (w *trial) forgetsMoreThanOnce() {
	run := w.store(w.request(terraform.OperationPlanAndApply, resource("first", "", "one", "made first")))
	w.Expect(w.Runner.Forget(w.t.Context(), run)).To(gomega.Succeed(), "a run that never began is forgotten")
	w.Expect(w.Runner.Start(w.t.Context(), run)).To(gomega.Succeed())
	w.Expect(w.result(run).Outcome).To(gomega.Equal(terraform.OutcomeSucceeded))
	w.becomes(run, terraform.LivenessGone)
	for range 2 {
		w.Expect(w.Runner.Forget(w.t.Context(), run)).To(gomega.Succeed())
		w.Expect(w.Runner.Remove(w.t.Context(), w.workspace)).To(gomega.Succeed())
	}
	w.Expect(record.Finished(w.record(run))).To(gomega.BeTrue(), "the result is not the executor's to forget")
	w.becomes(run, terraform.LivenessGone)
}
