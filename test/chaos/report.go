package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// report is the content of the JSON file.
type report struct {
	Schedules  int    `json:"schedules"`
	Violations int    `json:"violations"`
	Executor   string `json:"executor"`
	Backend    string `json:"backend"`
	Load       int    `json:"load"`
	// Seed is the seed of the first schedule.
	Seed    uint64   `json:"seed"`
	Seeds   []uint64 `json:"seeds"`
	Seconds float64  `json:"seconds"`
	// Faults counts injected faults, Missed those that had no target.
	Faults     map[fault]int     `json:"faults"`
	FaultCount int               `json:"faultCount"`
	Missed     map[fault]int     `json:"missedFaults"`
	Operations map[operation]int `json:"operations"`
	Resources  tally             `json:"resources"`
	// ForcedUnlocks is how often the user had to force an unlock, AdoptedStates how
	// often to adopt a state that a workspace could not know, and RequestedRuns how
	// often to request a run after a failure that is not retried.
	ForcedUnlocks int `json:"forcedUnlocks"`
	AdoptedStates int `json:"adoptedStates"`
	RequestedRuns int `json:"requestedRuns"`
	// Excused is how often each excuse was needed.
	Excused map[excuse]int `json:"excused"`
	// SlowestSettle is the longest time that workspaces took to settle, in seconds.
	SlowestSettle float64     `json:"slowestSettleSeconds"`
	Details       []violation `json:"details"`
	// Errors are those of the test itself. The schedules after one did not run.
	Errors []string `json:"errors"`
}

func newReport(o options) *report {
	r := &report{
		Executor: o.form.executor, Backend: o.form.backend, Load: o.load, Seed: o.seed,
		Seeds: []uint64{}, Faults: map[fault]int{}, Missed: map[fault]int{}, Operations: map[operation]int{}, Excused: map[excuse]int{},
		Details: []violation{}, Errors: []string{},
	}
	for _, e := range excuses {
		r.Excused[e] = 0
	}
	// Faults that were never injected are listed too.
	for _, from := range [][]weightedFault{o.form.partFaults(), o.form.runFaults(), o.form.stepFaults()} {
		for _, w := range from {
			r.Faults[w.fault] = 0
		}
	}
	return r
}

func (r *report) add(t *trial) {
	r.Schedules++
	r.Seeds = append(r.Seeds, t.schedule.Seed)
	for f, n := range t.faults {
		r.Faults[f] += n
		r.FaultCount += n
	}
	for f, n := range t.missed {
		r.Missed[f] += n
	}
	for o, n := range t.operations {
		r.Operations[o] += n
	}
	r.Resources.add(t.tally)
	for e, n := range t.excused {
		r.Excused[e] += n
	}
	for e, n := range map[excuse]int{
		excuseInterrupted: t.tally.Interrupted, excuseRepeated: t.tally.Repeated, excuseRecorded: t.tally.Recorded,
		excuseLate: t.tally.Late, excuseRemembered: t.tally.Remembered,
	} {
		r.Excused[e] += n
	}
	r.ForcedUnlocks += t.unlocks
	r.AdoptedStates += t.adoptions
	r.RequestedRuns += t.requests
	r.SlowestSettle = max(r.SlowestSettle, t.settled.Seconds())
	r.Details = append(r.Details, t.violations...)
	r.Violations = len(r.Details)
}

// enoughSchedules is the number of schedules in which each possible fault must occur.
const enoughSchedules = 50

// missing returns an error if a fault was never injected in many schedules: a test
// without it proves less than it claims. Only root can fill a disk.
func (r *report) missing(hasDisk bool) error {
	if r.Schedules < enoughSchedules {
		return nil
	}
	var missing []string
	for f, n := range r.Faults {
		if n == 0 && (f != fillDisk || hasDisk) {
			missing = append(missing, string(f))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("faults that were never injected in %d schedules: %s", r.Schedules, strings.Join(missing, ", "))
}

func (t *trial) summary() string {
	operations, faults := 0, 0
	for _, n := range t.operations {
		operations += n
	}
	for _, n := range t.faults {
		faults += n
	}
	text := fmt.Sprintf("%d operations, %d faults, %d created, %d destroyed, %d interrupted, settled in %s",
		operations, faults, t.tally.Created, t.tally.Destroyed, t.tally.Interrupted, t.settled.Round(100*time.Millisecond))
	if len(t.violations) == 0 {
		return text + ": no violations"
	}
	for _, v := range t.violations {
		text += fmt.Sprintf("\n  VIOLATION %s: %s", v.Workspace, v.Text)
	}
	return text
}

func (r *report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("creating the directory of the report: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func (r *report) print() {
	logf("%d schedules, %d faults, %d resources created, %d destroyed, %d creates interrupted by a kill, %d forced unlocks, %d adopted states, settled in at most %.1fs, %.0fs in total: %d violations",
		r.Schedules, r.FaultCount, r.Resources.Created, r.Resources.Destroyed, r.Resources.Interrupted, r.ForcedUnlocks, r.AdoptedStates, r.SlowestSettle, r.Seconds, r.Violations)
	logf("Excused: %s", excusedText(r.Excused))
}

// excusedText lists the excuses that were needed.
func excusedText(excused map[excuse]int) string {
	var texts []string
	for _, e := range slices.Sorted(maps.Keys(excused)) {
		if n := excused[e]; n > 0 {
			texts = append(texts, fmt.Sprintf("%s %d", e, n))
		}
	}
	if len(texts) == 0 {
		return "nothing"
	}
	return strings.Join(texts, ", ")
}
