package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/record"
)

// violation is a violated invariant.
type violation struct {
	Seed      uint64 `json:"seed"`
	Workspace string `json:"workspace,omitempty"`
	Text      string `json:"text"`
}

// excuse is why something that a check would find is no violation. Each has a fault as its cause,
// and the report has how often it was used.
type excuse string

const (
	// The resources of killed tools; see tally.
	excuseInterrupted excuse = "created-by-a-killed-tool"
	excuseRepeated    excuse = "destroyed-twice"
	excuseRecorded    excuse = "recorded-twice"
	excuseLate        excuse = "late-change-of-a-killed-tool"
	excuseRemembered  excuse = "destroyed-by-a-killed-tool-and-in-the-state"
	// excuseUnread is a kill of a tool whose state could not be read, so that nothing counts as
	// saved.
	excuseUnread excuse = "state-unreadable-at-a-kill"
	// A lock whose holder nothing can prove to have ended, which a user breaks or leaves.
	excuseDeletedRecord excuse = "lock-of-a-deleted-record"
	excuseRetainedLock  excuse = "lock-of-a-retained-workspace"
	// A state that a workspace cannot know to be its own, which a user adopts.
	excuseRetainedState excuse = "state-of-a-retained-workspace"
	excuseUnknownState  excuse = "state-of-a-deleted-record"
	// A failure that is not retried, after which a user requests a run.
	excuseRefused excuse = "run-refused"
	excuseFull    excuse = "run-without-disk"
	// excuseHeld is a plan that a user approves because an earlier run was interrupted.
	excuseHeld excuse = "plan-held-after-an-interrupt"
	// excusePolicy is a policy that the API server did not know yet when it was asked first.
	excusePolicy excuse = "policy-not-in-force-at-first"
	// excuseBusy is a paused workspace whose last run did not end soon, so that its idleness was
	// not checked.
	excuseBusy excuse = "not-idle-when-paused"
	// excuseKept is a Job or pod of a lost run or of a deleted record.
	excuseKept excuse = "object-of-a-lost-run"
)

// excuses are all of them.
var excuses = []excuse{
	excuseInterrupted, excuseRepeated, excuseRecorded, excuseLate, excuseRemembered, excuseUnread, excuseDeletedRecord, excuseRetainedLock,
	excuseRetainedState, excuseUnknownState, excuseRefused, excuseFull, excuseHeld, excusePolicy, excuseBusy, excuseKept,
}

// counts are the numbers of a trial for the report.
type counts struct {
	operations map[operation]int
	faults     map[fault]int
	missed     map[fault]int
	unlocks    int
	adoptions  int
	requests   int
	excused    map[excuse]int
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
	// deleted are the runs whose Secret was deleted, by ID. deleting is held while one is.
	deleted    map[string]bool
	deleting   sync.RWMutex
	violations []violation
	// settled is how long the workspaces took to settle.
	settled time.Duration
}

func newTrial(w *harness, g *guard, seed uint64) *trial {
	t := &trial{
		harness: w, schedule: newSchedule(seed, w.form), namespace: fmt.Sprintf("chaos-%d", seed), guard: g,
		actors: map[string]*actor{}, deleted: map[string]bool{},
		counts: counts{operations: map[operation]int{}, faults: map[fault]int{}, missed: map[fault]int{}, excused: map[excuse]int{}},
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

func (t *trial) excuse(e excuse) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.excused[e]++
}

// count increments one of the counts.
func (t *trial) count(n *int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*n++
}

// deleteRecord deletes the record of a run. Only one that is gone excuses anything, and whether it
// is cannot be told from an error.
func (t *trial) deleteRecord(ctx context.Context, run string) error {
	t.deleting.Lock()
	defer t.deleting.Unlock()
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: t.namespace, Name: record.SecretName(run)}
	if err := t.client.Get(ctx, key, secret); err != nil {
		return errNoTarget
	}
	uid := secret.UID
	if err := t.client.Delete(ctx, secret, client.Preconditions{UID: &uid}); err != nil {
		gone := poll(ctx, backendTimeout, func(ctx context.Context) error {
			err := t.client.Get(ctx, key, secret)
			if apierrors.IsNotFound(err) || err == nil && secret.UID != uid {
				return nil
			}
			return errors.Join(err, errors.New("the record exists"))
		})
		if gone != nil {
			return errNoTarget
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deleted[run] = true
	return nil
}

// isDeletedRun reports whether the record of a run was deleted.
func (t *trial) isDeletedRun(run string) bool {
	t.deleting.RLock()
	defer t.deleting.RUnlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.deleted[run]
}

// lostRecord reports whether the record of a run of a workspace was deleted.
func (t *trial) lostRecord(workspace string) bool {
	t.deleting.RLock()
	defer t.deleting.RUnlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	for run := range t.deleted {
		if name, _, err := record.ParseRunID(run); err == nil && name == workspace {
			return true
		}
	}
	return false
}

// excuseOf returns why a lock remains: the record of the run that holds it was deleted by a fault,
// or its tool was killed in a workspace that left its state and its lock to the user.
// The lock of a tool does not name its run, but the host or the time does.
func (a *actor) excuseOf(l lock) (excuse, bool) {
	if _, named := a.store.(*kubernetesStore); named {
		return excuseDeletedRecord, a.isDeletedRun(l.ID)
	}
	if l.Created.Before(a.retainedUntil) && a.guard.wasKilled(a.workspace(), l.Created, a.retainedUntil) {
		return excuseRetainedLock, true
	}
	if a.form.executor == executorProcess {
		return excuseDeletedRecord, a.isDeletedRun(a.guard.runAt(a.workspace(), l.Created))
	}
	_, pod, _ := strings.Cut(l.Who, "@")
	a.deleting.RLock()
	defer a.deleting.RUnlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	for run := range a.trial.deleted {
		if strings.HasPrefix(pod, record.SecretName(run)+"-") {
			return excuseDeletedRecord, true
		}
	}
	return "", false
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
	defer func() {
		if len(t.violations) == 0 && ctx.Err() == nil {
			t.removeNamespace(ctx)
		}
	}()
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
