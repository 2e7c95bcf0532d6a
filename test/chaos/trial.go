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

// violation is something that must not be.
type violation struct {
	Seed      uint64 `json:"seed"`
	Workspace string `json:"workspace,omitempty"`
	Text      string `json:"text"`
}

// counts is what a trial counts.
type counts struct {
	operations map[operation]int
	faults     map[fault]int
	missed     map[fault]int
	helped     int
	tally      tally
}

// trial carries out one schedule.
type trial struct {
	*harness
	schedule  schedule
	namespace string
	actors    map[string]*actor
	guard     *guard

	mu sync.Mutex
	counts
	// deleted are runs whose Secret was deleted.
	deleted    map[string]bool
	violations []violation
	// settled is how long everything took to settle.
	settled time.Duration
}

func newTrial(w *harness, g *guard, seed uint64) *trial {
	t := &trial{
		harness: w, schedule: newSchedule(seed), namespace: fmt.Sprintf("chaos-%d", seed), guard: g,
		actors: map[string]*actor{}, deleted: map[string]bool{},
		counts: counts{operations: map[operation]int{}, faults: map[fault]int{}, missed: map[fault]int{}},
	}
	for _, s := range t.schedule.Stories {
		t.actors[s.Name] = &actor{trial: t, story: s}
	}
	return t
}

func (t *trial) noteOperation(o operation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.operations[o]++
}

func (t *trial) noteHelp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.helped++
}

func (t *trial) noteDeleted(run string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deleted[run] = true
}

func (t *trial) deletedRun(run string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.deleted[run]
}

// noteFault counts a fault. One that was not possible, because what it would
// have hit was away, is counted as missed.
func (t *trial) noteFault(m mishap, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.missed[m.Fault]++
		return
	}
	t.faults[m.Fault]++
}

func (t *trial) violate(workspace string, texts ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, text := range texts {
		v := violation{Seed: t.schedule.Seed, Workspace: workspace, Text: text}
		if !slices.Contains(t.violations, v) {
			t.violations = append(t.violations, v)
		}
	}
}

// act lets everybody act and everything go wrong, and blocks until it is over.
func (t *trial) act(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { t.inject(ctx) })
	t.each(func(a *actor) {
		suffering, end := context.WithCancel(ctx)
		group.Go(func() { a.suffer(suffering) })
		if err := a.live(ctx); err != nil {
			t.violate(a.story.Name, err.Error())
		}
		end()
	})
	group.Wait()
}

// each has all actors do something at once.
func (t *trial) each(do func(*actor)) {
	var group sync.WaitGroup
	for _, a := range t.actors {
		group.Go(func() { do(a) })
	}
	group.Wait()
}

// settle waits for all workspaces and checks them.
func (t *trial) settle(ctx context.Context) {
	began := time.Now()
	t.each(func(a *actor) {
		if err := a.settle(ctx); err != nil {
			t.violate(a.story.Name, "it does not settle: "+err.Error())
		}
	})
	t.settled = max(t.settled, time.Since(began))
	t.each(func(a *actor) { a.report(ctx) })
}

// report checks a workspace and notes what is wrong.
func (a *actor) report(ctx context.Context) tally {
	found, counts, err := a.check(ctx)
	if err != nil {
		found = append(found, "it cannot be checked: "+err.Error())
	}
	a.violate(a.story.Name, found...)
	return counts
}

// runs counts the runs of all workspaces that exist.
func (t *trial) runs(ctx context.Context) (map[string]int64, error) {
	counted := map[string]int64{}
	for _, a := range t.actors {
		if !a.exists {
			continue
		}
		now := &infrav1.WorkspaceTemplateApply{}
		if err := a.client.Get(ctx, a.key(), now); err != nil {
			return nil, err
		}
		counted[a.story.Name] = now.Status.Runs
	}
	return counted, nil
}

// compareRuns finds runs without a reason.
func (t *trial) compareRuns(ctx context.Context, before map[string]int64) {
	after, err := t.runs(ctx)
	if err != nil {
		t.violate("", "counting runs: "+err.Error())
		return
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if after[name] != before[name] {
			t.violate(name, fmt.Sprintf("a restart of the manager started %d runs", after[name]-before[name]))
		}
	}
}

// finish deletes everything, and checks that nothing is left. What was left in
// place is taken up again first.
func (t *trial) finish(ctx context.Context) {
	t.each(func(a *actor) {
		if err := a.finish(ctx); err != nil {
			t.violate(a.story.Name, "it cannot be deleted: "+err.Error())
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
	if err := a.discard(ctx); err != nil {
		return err
	}
	return await(ctx, patience, func() error {
		now := &infrav1.WorkspaceTemplateApply{}
		err := a.client.Get(ctx, a.key(), now)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, a.help(ctx, now), errors.New(condition(now, infrav1.DestroyedCondition)))
	})
}
