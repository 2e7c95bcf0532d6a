package events

import (
	"slices"
	"strings"
	"time"

	"github.com/appthrust/capt/internal/terraform"
)

// Tracker computes the progress of a run from its events. It is not safe for
// concurrent use.
type Tracker struct {
	phase     terraform.Phase
	updatedAt time.Time
	// pending maps the resources that the plan changes to their actions. The
	// action of a finished resource is empty.
	pending map[string]terraform.Action
	total   int
	done    int
	current map[string]terraform.ResourceProgress
}

// NewTracker returns the tracker of a run that has not started.
func NewTracker() *Tracker {
	return &Tracker{
		phase:   terraform.PhasePreparing,
		pending: map[string]terraform.Action{},
		current: map[string]terraform.ResourceProgress{},
	}
}

// Enter starts a phase and resets the counts.
func (t *Tracker) Enter(phase terraform.Phase, at time.Time) {
	t.phase = phase
	t.updatedAt = at
	t.pending = map[string]terraform.Action{}
	t.total, t.done = 0, 0
	t.current = map[string]terraform.ResourceProgress{}
}

// Expect adds the planned changes of an apply to the total, before its events
// report them.
func (t *Tracker) Expect(changes []terraform.Change) {
	for _, change := range changes {
		t.expect(change)
	}
}

func (t *Tracker) expect(change terraform.Change) {
	switch change.Action {
	case terraform.ActionCreate, terraform.ActionUpdate, terraform.ActionReplace, terraform.ActionDelete:
		if _, known := t.pending[change.Address]; !known {
			t.pending[change.Address] = change.Action
			t.total++
		}
	}
}

// Observe handles an event and reports whether it changed the progress.
func (t *Tracker) Observe(event Event) bool {
	changed := false
	switch applying := t.phase == terraform.PhaseApplying || t.phase == terraform.PhaseDestroying; {
	case event.Type == TypePlanned && event.Change != nil && applying:
		before := t.total
		t.expect(event.Change.Convert())
		changed = t.total != before
	case event.Hook == nil:
	case event.Type == TypeApplyStart:
		t.start(event)
		changed = true
	case event.Type == TypeApplyComplete, event.Type == TypeApplyErrored:
		t.end(event)
		changed = true
	case event.Type == TypeRefreshed && !applying:
		t.done++
		changed = true
	}
	if changed {
		t.updatedAt = event.Time
	}
	return changed
}

func (t *Tracker) start(event Event) {
	address := event.Hook.Resource.Address
	t.current[address] = terraform.ResourceProgress{Address: address, Action: action(event.Hook.Action), Since: event.Time}
}

// end removes a resource from those in progress. A replaced resource is done after
// the new one is created, and a failed resource is not done.
func (t *Tracker) end(event Event) {
	address, finished := event.Hook.Resource.Address, action(event.Hook.Action)
	delete(t.current, address)
	planned, expected := t.pending[address]
	if event.Type == TypeApplyErrored || !expected || planned == "" ||
		planned == terraform.ActionReplace && finished == terraform.ActionDelete {
		return
	}
	t.pending[address] = ""
	t.done++
}

// Progress returns the progress of the run.
func (t *Tracker) Progress() terraform.Progress {
	progress := terraform.Progress{Phase: t.phase, Done: t.done, Total: t.total, UpdatedAt: t.updatedAt}
	for _, resource := range t.current {
		progress.Current = append(progress.Current, resource)
	}
	slices.SortFunc(progress.Current, func(a, b terraform.ResourceProgress) int {
		if order := a.Since.Compare(b.Since); order != 0 {
			return order
		}
		return strings.Compare(a.Address, b.Address)
	})
	return progress
}
