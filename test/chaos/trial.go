package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// violation is a violated invariant.
type violation struct {
	Seed      uint64 `json:"seed"`
	Workspace string `json:"workspace,omitempty"`
	Text      string `json:"text"`
}

// counts are the numbers of a trial for the report.
type counts struct {
	operations map[operation]int
	faults     map[fault]int
	missed     map[fault]int
	unlocks    int
	tally      tally
}

// trial runs one schedule.
type trial struct {
	*harness
	schedule  schedule
	namespace string
	actors    map[string]*actor
	guard     *guard

	mu sync.Mutex
	counts
	// deleted are the runs whose Secret was deleted.
	deleted    map[string]bool
	violations []violation
	// settled is how long the workspaces took to settle.
	settled time.Duration
}

func newTrial(w *harness, g *guard, seed uint64) *trial {
	t := &trial{
		harness: w, schedule: newSchedule(seed), namespace: fmt.Sprintf("chaos-%d", seed), guard: g,
		actors: map[string]*actor{}, deleted: map[string]bool{},
		counts: counts{operations: map[operation]int{}, faults: map[fault]int{}, missed: map[fault]int{}},
	}
	for _, s := range t.schedule.Scenarios {
		t.actors[s.Name] = &actor{trial: t, scenario: s}
	}
	return t
}

func (t *trial) countOperation(o operation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.operations[o]++
}

func (t *trial) countUnlock() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unlocks++
}

func (t *trial) recordDeleted(run string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deleted[run] = true
}

// mayBeDeletedRun reports whether the record of the run that holds a lock may have been
// deleted. The lock of a tool does not name its run.
func (t *trial) mayBeDeletedRun(holder string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, named := t.store.(*kubernetesStore)
	return t.deleted[holder] || !named && len(t.deleted) > 0
}

// countFault counts a fault. One that was not possible, because its process was not
// running, is counted as missed.
func (t *trial) countFault(m injection, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.missed[m.Fault]++
		return
	}
	t.faults[m.Fault]++
}

func (t *trial) addViolation(workspace string, texts ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, text := range texts {
		v := violation{Seed: t.schedule.Seed, Workspace: workspace, Text: text}
		if !slices.Contains(t.violations, v) {
			t.violations = append(t.violations, v)
		}
	}
}

// act runs all actors and injects all faults, and blocks until both have finished.
func (t *trial) act(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { t.injectParts(ctx) })
	t.each(func(a *actor) {
		injecting, stop := context.WithCancel(ctx)
		group.Go(func() { a.injectRuns(injecting) })
		if err := a.run(ctx); err != nil {
			t.addViolation(a.scenario.Name, err.Error())
		}
		stop()
	})
	group.Wait()
}

// each calls a function for all actors concurrently.
func (t *trial) each(do func(*actor)) {
	var group sync.WaitGroup
	for _, a := range t.actors {
		group.Go(func() { do(a) })
	}
	group.Wait()
}

// settle waits for all workspaces and checks them.
func (t *trial) settle(ctx context.Context) {
	start := time.Now()
	t.each(func(a *actor) {
		if err := a.settle(ctx); err != nil {
			t.addViolation(a.scenario.Name, "the workspace does not settle: "+err.Error())
		}
	})
	t.settled = max(t.settled, time.Since(start))
	t.each(func(a *actor) { a.report(ctx) })
}

// report checks a workspace and records its violations.
func (a *actor) report(ctx context.Context) tally {
	found, counts, err := a.check(ctx)
	if err != nil {
		found = append(found, "checking the workspace: "+err.Error())
	}
	a.addViolation(a.scenario.Name, found...)
	return counts
}

// runs returns the number of runs of each existing workspace.
func (t *trial) runs(ctx context.Context) (map[string]int64, error) {
	counted := map[string]int64{}
	for _, a := range t.actors {
		if !a.exists {
			continue
		}
		observed := &infrav1.WorkspaceTemplateApply{}
		if err := a.client.Get(ctx, a.key(), observed); err != nil {
			return nil, err
		}
		counted[a.scenario.Name] = observed.Status.Runs
	}
	return counted, nil
}

// compareRuns finds runs that were started without a reason.
func (t *trial) compareRuns(ctx context.Context, before map[string]int64) {
	after, err := t.runs(ctx)
	if err != nil {
		t.addViolation("", "counting runs: "+err.Error())
		return
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if after[name] != before[name] {
			t.addViolation(name, fmt.Sprintf("a restart of the manager started %d runs", after[name]-before[name]))
		}
	}
}

// finish deletes all workspaces, and checks that nothing remains. Retained resources
// are adopted by a new workspace first.
func (t *trial) finish(ctx context.Context) {
	t.each(func(a *actor) {
		if err := a.finish(ctx); err != nil {
			t.addViolation(a.scenario.Name, "deleting the workspace: "+err.Error())
		}
		counts := a.report(ctx)
		t.mu.Lock()
		t.tally.add(counts)
		t.mu.Unlock()
	})
}

func (a *actor) finish(ctx context.Context) error {
	if a.retained {
		a.exists, a.retained = true, false
		if err := a.create(ctx); err != nil {
			return err
		}
	}
	if !a.exists {
		return nil
	}
	if err := a.destroy(ctx); err != nil {
		return err
	}
	return poll(ctx, settleTimeout, func() error {
		observed := &infrav1.WorkspaceTemplateApply{}
		err := a.client.Get(ctx, a.key(), observed)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, a.forceUnlock(ctx, observed), a.adopt(ctx, observed), errors.New(condition(observed, infrav1.DestroyedCondition)))
	})
}
