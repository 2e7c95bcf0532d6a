package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/testenv"
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
	f := form{executor: executorJob, backend: backendS3}
	r := newReport(options{form: f, seed: 9})
	g.Expect(r.Faults).To(HaveLen(len(f.partFaults()) + len(f.runFaults()) + len(f.stepFaults())))
	tr := &trial{schedule: schedule{Seed: 9}, counts: counts{faults: map[fault]int{loseNode: 2}, missed: map[fault]int{fillDisk: 1}}}
	r.add(tr)
	g.Expect(r.Faults).To(And(HaveKeyWithValue(loseNode, 2), HaveKeyWithValue(fillDisk, 0)))
	g.Expect(r.Missed).To(HaveKeyWithValue(fillDisk, 1))
	g.Expect(r.Seeds).To(Equal([]uint64{9}))
}

func TestReport_requiresEachFaultInManySchedules(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := &report{Schedules: enoughSchedules, Faults: map[fault]int{killManager: 3, loseNode: 0, fillDisk: 0}}
	g.Expect(r.missing(false)).To(MatchError(And(ContainSubstring("lose-node"), Not(ContainSubstring("full-disk")))))
	g.Expect(r.missing(true)).To(MatchError(ContainSubstring("full-disk, lose-node")))
	r.Schedules--
	g.Expect(r.missing(true)).To(Succeed())
}

func TestExcuses_areDocumented(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	root, err := testenv.Root()
	g.Expect(err).NotTo(HaveOccurred())
	page, err := os.ReadFile(filepath.Join(root, "docs", "reliability.md"))
	g.Expect(err).NotTo(HaveOccurred())
	_, after, found := strings.Cut(string(page), "| excuse | cause |")
	g.Expect(found).To(BeTrue())
	table, _, _ := strings.Cut(after, "\n\n")
	for _, e := range excuses {
		g.Expect(table).To(ContainSubstring("`" + string(e) + "`"))
	}
	g.Expect(strings.Count(table, "`")).To(Equal(2*len(excuses)), "the table has no others")
}

// TestExcuseOf checks that a lock is broken only if the record of its own run was deleted, or if
// the tool of a retained workspace was killed.
func TestExcuseOf(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	start := time.Unix(1000, 0)
	guard := &guard{kills: map[string][]time.Time{"ns/w0": {start.Add(-100 * time.Minute)}}}
	guard.record([]process{{workspace: "ns/w0", run: "w0-r1", since: start}, {workspace: "ns/w0", run: "w0-r2", since: start.Add(time.Minute)}})
	for name, tt := range map[string]struct {
		store    store
		executor string
		lock     lock
		want     excuse
	}{
		"the Lease of a deleted run":      {&kubernetesStore{}, executorProcess, lock{ID: "w0-r1"}, excuseDeletedRecord},
		"the Lease of another run":        {&kubernetesStore{}, executorProcess, lock{ID: "w0-r2"}, ""},
		"taken by a deleted run":          {&httpStore{}, executorProcess, lock{ID: "x", Created: start.Add(time.Second)}, excuseDeletedRecord},
		"taken by the run after it":       {&httpStore{}, executorProcess, lock{ID: "x", Created: start.Add(time.Hour)}, ""},
		"taken before the first run":      {&httpStore{}, executorProcess, lock{ID: "x", Created: start.Add(-time.Hour)}, ""},
		"taken in the pod of a deleted":   {&s3Store{}, executorJob, lock{ID: "x", Who: "runner@capt-run-w0-r1-abcde", Created: start}, excuseDeletedRecord},
		"taken in the pod of another run": {&s3Store{}, executorJob, lock{ID: "x", Who: "runner@capt-run-w0-r10-abcde", Created: start}, ""},
		"taken by a retained workspace before a kill": {
			&s3Store{}, executorJob, lock{ID: "x", Who: "runner@capt-run-w0-r10-abcde", Created: start.Add(-2 * time.Hour)}, excuseRetainedLock,
		},
		"taken by a retained workspace after the last kill": {
			&s3Store{}, executorJob, lock{ID: "x", Who: "runner@capt-run-w0-r10-abcde", Created: start.Add(-95 * time.Minute)}, "",
		},
	} {
		tr := &trial{harness: &harness{store: tt.store, form: form{executor: tt.executor}}, guard: guard, namespace: "ns", deleted: map[string]bool{"w0-r1": true}}
		a := &actor{trial: tr, scenario: scenario{Name: "w0"}, retainedUntil: start.Add(-90 * time.Minute)}
		why, excused := a.excuseOf(tt.lock)
		g.Expect(excused).To(Equal(tt.want != ""), name)
		if excused {
			g.Expect(why).To(Equal(tt.want), name)
		}
	}
}

func TestMayAdopt(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	known := &infrav1.StateStatus{Lineage: "l"}
	for name, tt := range map[string]struct {
		left    string
		deleted string
		state   *infrav1.StateStatus
		want    excuse
	}{
		"the retained state":                      {left: "old", state: known, want: excuseRetainedState},
		"another state than the retained one":     {left: "older", state: known},
		"the first run was deleted":               {deleted: "w0-r1", want: excuseUnknownState},
		"a run was deleted, the lineage is known": {deleted: "w0-r1", state: known},
		"a run of another workspace was deleted":  {deleted: "w1-r1"},
		"no cause":                                {},
	} {
		a := &actor{trial: &trial{deleted: map[string]bool{tt.deleted: true}}, scenario: scenario{Name: "w0"}, left: tt.left}
		observed := &infrav1.WorkspaceTemplateApply{Status: infrav1.WorkspaceTemplateApplyStatus{State: tt.state}}
		why, excused := a.mayAdopt(observed, "old")
		g.Expect(excused).To(Equal(tt.want != ""), name)
		if excused {
			g.Expect(why).To(Equal(tt.want), name)
		}
	}
}

// A workspace that is deleted before it adopts the retained state leaves it to the next one.
func TestAdopt_isNotDoneBeforeTheStateIsKnown(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	a := &actor{trial: &trial{}, left: "l"}
	g.Expect(a.adopt(t.Context(), &infrav1.WorkspaceTemplateApply{})).To(Succeed())
	g.Expect(a.left).To(Equal("l"))
	known := &infrav1.WorkspaceTemplateApply{Status: infrav1.WorkspaceTemplateApplyStatus{State: &infrav1.StateStatus{Lineage: "l"}}}
	g.Expect(a.adopt(t.Context(), known)).To(Succeed())
	g.Expect(a.left).To(BeEmpty(), "from now on, the workspace knows its state, also with the default backend, which adopts without a request")
}

func TestWindows_excuseOnlyRunsDuringTheFault(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var w windows
	now := time.Now()
	g.Expect(w.during(now.Add(-time.Hour), now, fillDisk)).To(BeFalse())
	end := w.begin(fillDisk)
	g.Expect(w.during(now, now, expireBackend, fillDisk)).To(BeTrue())
	end()
	w.list[0].start, w.list[0].end = now.Add(-time.Minute), now.Add(-30*time.Second)
	for name, tt := range map[string]struct {
		from, to time.Duration
		want     bool
	}{
		"before it":             {-70 * time.Second, -62 * time.Second, false},
		"ended in it":           {-70 * time.Second, -50 * time.Second, true},
		"all of it":             {-70 * time.Second, 0, true},
		"started in it":         {-31 * time.Second, 0, true},
		"started soon after it": {-28 * time.Second, 0, false},
	} {
		g.Expect(w.during(now.Add(tt.from), now.Add(tt.to), fillDisk)).To(Equal(tt.want), name)
	}
}

func TestSuspend_isNoKillOfAProcessThatHasExited(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cmd := exec.Command("sleep", "600")
	g.Expect(cmd.Start()).To(Succeed())
	victim, err := newTarget(cmd.Process.Pid)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(victim.suspend(t.Context())).To(Succeed())
	// It is not waited for, so its PID is that of a zombie.
	g.Expect(cmd.Process.Kill()).To(Succeed())
	g.Eventually(func() error { return victim.suspend(t.Context()) }, testTimeout).Should(MatchError(errNoTarget))
	g.Expect(cmd.Wait()).NotTo(Succeed())
}

func TestConflicts_areToolsOfOneWorkspace(t *testing.T) {
	tool := func(workspace string, parent int) process { return process{workspace: workspace, parent: parent} }
	for name, tc := range map[string]struct {
		tools []process
		want  int
	}{
		"other workspaces":      {[]process{tool("ns/w0", 1), tool("ns/w1", 2)}, 0},
		"two commands of a run": {[]process{tool("ns/w0", 1), tool("ns/w0", 1)}, 1},
		"two runs":              {[]process{tool("ns/w0", 1), tool("ns/w0", 2)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			found := 0
			for range (processList{tools: tc.tools}).conflicts() {
				found++
			}
			NewWithT(t).Expect(found).To(Equal(tc.want))
		})
	}
}

func TestSurplusPlans_keepsTheLatestChanges(t *testing.T) {
	g := NewWithT(t)
	latest := &infrav1.PlanStatus{ID: "plan-0"}
	changes := func(plan string) string { return record.ChunkName(record.ChangesName(plan), 0) }
	kept := []string{changes("plan-0"), changes("plan-1"), changes("plan-2"), changes("plan-3")}
	g.Expect(surplusPlans(kept, latest)).To(BeEmpty())
	g.Expect(surplusPlans(append(kept, record.ChunkName("plan-0", 0)), latest)).To(Equal([]string{record.ChunkName("plan-0", 0)}), "an applied plan")
	g.Expect(surplusPlans(append(kept, changes("plan-4")), latest)).To(HaveLen(4), "too many")
	g.Expect(surplusPlans(kept, nil)).To(HaveLen(4), "too many without a latest one")
}
