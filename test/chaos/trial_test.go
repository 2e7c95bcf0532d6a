package main

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestTrial_continuesWithoutAWorkspaceThatDidNotSettle(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	tr := &trial{schedule: schedule{Seed: 7}, actors: map[string]*actor{}}
	a := &actor{trial: tr, scenario: scenario{Name: "w0"}, exists: true}
	tr.actors["w0"] = a
	observed := &infrav1.WorkspaceTemplateApply{Status: infrav1.WorkspaceTemplateApplyStatus{Conditions: []metav1.Condition{
		{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse, Reason: infrav1.LockHeldReason, Message: "Held by w0-r1"},
	}}}
	a.blame(t.Context(), fmt.Errorf("%w: %w", errTimeout, ready(observed)))
	g.Expect(tr.violations).To(HaveLen(1))
	g.Expect(tr.violations[0].Seed).To(Equal(uint64(7)))
	g.Expect(tr.violations[0].Text).To(And(HavePrefix("did not settle: timed out"), ContainSubstring("Ready=False LockHeld: Held by w0-r1")))
	// The workspace is not waited for again.
	tr.settle(t.Context())
	tr.finish(t.Context())
	g.Expect(tr.violations).To(HaveLen(1))
	g.Expect(tr.runs(t.Context())).To(BeEmpty())
}

func TestTrial_doesNotBlameAnInterruptedWorkspace(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tr := &trial{}
	a := &actor{trial: tr, scenario: scenario{Name: "w0"}}
	a.blame(ctx, context.Canceled)
	g.Expect(tr.violations).To(BeEmpty())
	g.Expect(a.stuck).To(BeFalse())
}

func TestReport_listsFaultsThatWereNotInjected(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	f := form{executor: executorJob, backend: backendS3, managers: 2}
	r := newReport(options{form: f, seed: 9})
	g.Expect(r.Faults).To(HaveLen(len(f.partFaults()) + len(f.runFaults()) + len(backendFaults)))
	tr := &trial{schedule: schedule{Seed: 9}, counts: counts{faults: map[fault]int{loseNode: 2}, missed: map[fault]int{fillDisk: 1}}}
	r.add(tr)
	g.Expect(r.Faults).To(And(HaveKeyWithValue(loseNode, 2), HaveKeyWithValue(fillDisk, 0)))
	g.Expect(r.Missed).To(HaveKeyWithValue(fillDisk, 1))
	g.Expect(r.Seeds).To(Equal([]uint64{9}))
}
