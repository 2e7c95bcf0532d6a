package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/record"
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
	adoptions  int
	requests   int
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
	// deleted are the runs whose Secret was deleted, by ID.
	deleted    map[string]bool
	violations []violation
	// settled is how long the workspaces took to settle.
	settled time.Duration
}

func newTrial(w *harness, g *guard, seed uint64) *trial {
	t := &trial{
		harness: w, schedule: newSchedule(seed, w.form), namespace: fmt.Sprintf("chaos-%d", seed), guard: g,
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

// count increments one of the counts.
func (t *trial) count(n *int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*n++
}

func (t *trial) recordDeleted(run string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deleted[run] = true
}

// isDeletedRun reports whether the record of a run was deleted.
func (t *trial) isDeletedRun(run string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.deleted[run]
}

// lostRecord reports whether the record of a run of a workspace was deleted.
func (t *trial) lostRecord(workspace string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for run := range t.deleted {
		if name, _, err := record.ParseRunID(run); err == nil && name == workspace {
			return true
		}
	}
	return false
}

// holderWasDeleted reports whether the record of the run that holds a lock was deleted,
// by a fault or with a workspace that left its state and its lock to the user.
// The lock of a tool does not name its run, but the host or the time does.
func (a *actor) holderWasDeleted(l lock) bool {
	if _, named := a.store.(*kubernetesStore); named {
		return a.isDeletedRun(l.ID)
	}
	if l.Created.Before(a.retainedUntil) {
		return true
	}
	if a.form.executor == executorProcess {
		return a.isDeletedRun(a.guard.runAt(a.workspace(), l.Created))
	}
	_, pod, _ := strings.Cut(l.Who, "@")
	a.mu.Lock()
	defer a.mu.Unlock()
	for run := range a.trial.deleted {
		if strings.HasPrefix(pod, record.SecretName(run)+"-") {
			return true
		}
	}
	return false
}

// countFault counts a fault. One that was not possible, for example because its process
// was not running, is counted as missed.
func (t *trial) countFault(f fault, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.missed[f]++
		return
	}
	t.faults[f]++
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
		a.blame(ctx, a.run(ctx))
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
		if !a.stuck {
			a.blame(ctx, a.settle(ctx))
		}
	})
	t.settled = max(t.settled, time.Since(start))
	t.each(func(a *actor) {
		if !a.stuck && ctx.Err() == nil {
			a.report(ctx)
		}
	})
}

// blame records that a workspace did not settle, unless the program was interrupted. The
// workspace is then left alone, and the others continue.
func (a *actor) blame(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	a.stuck = true
	a.addViolation(a.scenario.Name, "did not settle: "+err.Error())
}

// report checks a workspace and records its violations.
func (a *actor) report(ctx context.Context) tally {
	found, counts, err := a.check(ctx)
	if ctx.Err() != nil {
		return counts
	}
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
		if !a.exists || a.stuck {
			continue
		}
		err := a.await(ctx, func(_ context.Context, observed *infrav1.WorkspaceTemplateApply) error {
			counted[a.scenario.Name] = observed.Status.Runs
			return nil
		})
		if err != nil {
			return nil, err
		}
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
		if a.stuck {
			return
		}
		a.blame(ctx, a.finish(ctx))
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
	return a.awaitDeletion(ctx)
}
