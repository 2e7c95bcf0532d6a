package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A journal has one line for each event of a workspace, in the order of the events.
// The module itself records the resources that it has created and destroyed. The
// actor records requests before it carries them out, and the kill of a tool while the tool is
// suspended.
const (
	wordCreated   = "created"
	wordDestroyed = "destroyed"
	wordUnwanted  = "unwanted"
	wordDeleted   = "deleted"
	wordKilled    = "killed"
	// wordInterrupted names a tool that is interrupted: nobody else may interrupt one. anyTool is
	// any that runs later.
	wordInterrupted = "interrupted"
	anyTool         = "any"
	// wordSaved names a resource that was in the state when a tool was killed.
	wordSaved = "saved"
	// wordApproved has the last number that an approved plan may create. Nothing is created
	// without an approval in a workspace that has such a line.
	wordApproved = "approved"
)

// entry is one line of a journal.
type entry struct {
	word string
	// name, number and id are those of the resource. number is also the number that
	// is unwanted, or the last number that a deletion makes unwanted or that is approved.
	name   string
	number int
	id     string
	// tool identifies the process of the tool: its PID and its start time, separated
	// by @.
	tool string
}

func unwantedLine(number int) string     { return fmt.Sprintf("%s %d\n", wordUnwanted, number) }
func deletedLine(number int) string      { return fmt.Sprintf("%s %d\n", wordDeleted, number) }
func approvedLine(number int) string     { return fmt.Sprintf("%s %d\n", wordApproved, number) }
func killedLine(tool string) string      { return fmt.Sprintf("%s %s\n", wordKilled, tool) }
func interruptedLine(tool string) string { return fmt.Sprintf("%s %s\n", wordInterrupted, tool) }
func savedLine(id string) string         { return fmt.Sprintf("%s %s\n", wordSaved, id) }

// parseJournal reads a journal.
func parseJournal(text string) ([]entry, error) {
	var entries []entry
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		e := entry{word: fields[0]}
		var err error
		switch {
		case (e.word == wordCreated || e.word == wordDestroyed) && len(fields) == 5:
			e.name, e.id, e.tool = fields[1], fields[3], fields[4]
			e.number, err = strconv.Atoi(fields[2])
		case (e.word == wordUnwanted || e.word == wordDeleted || e.word == wordApproved) && len(fields) == 2:
			e.number, err = strconv.Atoi(fields[1])
		case (e.word == wordKilled || e.word == wordInterrupted) && len(fields) == 2:
			e.tool = fields[1]
		case e.word == wordSaved && len(fields) == 2:
			e.id = fields[1]
		default:
			err = fmt.Errorf("unknown form")
		}
		if err != nil {
			return nil, fmt.Errorf("reading the journal at %q: %w", strings.TrimSpace(line), err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// resource is a resource of the state.
type resource struct {
	Name   string
	Number int
	Tag    string
}

// tally counts events that are not violations. The report has what is excused in one place.
type tally struct {
	Created   int `json:"made"`
	Destroyed int `json:"destroyed"`
	// Interrupted counts resources of a tool that was killed before it wrote its
	// state. No tool can know them, so they remain.
	Interrupted int `json:"interruptedCreates"`
	// Repeated counts resources that were destroyed twice, because the tool was
	// stopped before it removed them from the state.
	Repeated int `json:"repeatedDestroys"`
	// Recorded counts resources whose creation was recorded again, because the tool was
	// killed or interrupted before it saved that it had recorded it.
	Recorded int `json:"-"`
	// Late counts changes by child processes of killed tools, which are in no order.
	Late int `json:"-"`
	// Remembered counts resources that are in the state although a tool has destroyed them,
	// because it was killed before it saved that.
	Remembered int `json:"-"`
}

func (t *tally) add(other tally) {
	t.Created += other.Created
	t.Destroyed += other.Destroyed
	t.Interrupted += other.Interrupted
	t.Repeated += other.Repeated
	t.Recorded += other.Recorded
	t.Late += other.Late
	t.Remembered += other.Remembered
}

// audit finds violations in a journal.
type audit struct {
	entries []entry
	// killed are the processes that were killed, and saved the ids that the state had
	// at that time. created and destroyed are the entries of resources by id.
	killed, saved      map[string]bool
	created, destroyed map[string]entry
	tally              tally
	found              []string
}

// examine compares a journal with the state by id, and the state with the desired
// items by name. It returns the violations. If wanted is nil, the state need not be
// complete.
func examine(entries []entry, state map[string]resource, wanted map[string]item) ([]string, tally) {
	l := &audit{entries: entries, killed: killedTools(entries), saved: savedIDs(entries), created: map[string]entry{}, destroyed: map[string]entry{}}
	l.checkDestroys()
	l.checkApprovals()
	l.checkDuplicates()
	l.checkConcurrency()
	l.compareState(state)
	if wanted != nil {
		l.compareDesired(state, wanted)
	}
	return l.found, l.tally
}

// killedTools returns the tools that were killed.
func killedTools(entries []entry) map[string]bool {
	killed := map[string]bool{}
	for _, e := range entries {
		// The parent of a process whose parent has exited is process 1: a tool was killed before.
		if e.word == wordKilled || strings.HasPrefix(e.tool, "1@") && len(killed) > 0 {
			killed[e.tool] = true
		}
	}
	return killed
}

// savedIDs returns the resources that were in the state when a tool was killed.
func savedIDs(entries []entry) map[string]bool {
	saved := map[string]bool{}
	for _, e := range entries {
		if e.word == wordSaved {
			saved[e.id] = true
		}
	}
	return saved
}

// isLost reports whether a resource may be in no state, because its tool was killed
// before it saved it.
func (l *audit) isLost(e entry) bool { return l.killed[e.tool] && !l.saved[e.id] }

func (l *audit) addViolation(format string, args ...any) {
	l.found = append(l.found, fmt.Sprintf(format, args...))
}

// checkDestroys finds resources that were destroyed without a request.
func (l *audit) checkDestroys() {
	unwanted, interrupted, deleted := map[int]bool{}, map[string]bool{}, 0
	for _, e := range l.entries {
		switch e.word {
		case wordUnwanted:
			unwanted[e.number] = true
		case wordDeleted:
			deleted = max(deleted, e.number)
		case wordInterrupted:
			interrupted[e.tool] = true
		case wordCreated:
			l.tally.Created++
			if before, again := l.created[e.id]; again {
				l.tally.Recorded++
				if !l.killed[before.tool] && !interrupted[before.tool] && !interrupted[anyTool] {
					l.addViolation("what records %s number %d (%s) was created twice, and the first tool was neither killed nor interrupted", e.name, e.number, e.id)
				}
			}
			l.created[e.id] = e
		case wordDestroyed:
			l.tally.Destroyed++
			if !unwanted[e.number] && e.number > deleted {
				l.addViolation("%s number %d (%s) was destroyed without a request", e.name, e.number, e.id)
			}
			if _, again := l.destroyed[e.id]; again {
				l.tally.Repeated++
			}
			l.destroyed[e.id] = e
		}
	}
}

// checkApprovals finds resources that were created before a plan with them was approved.
func (l *audit) checkApprovals() {
	approved, manual := 0, false
	for _, e := range l.entries {
		switch {
		case e.word == wordApproved:
			approved, manual = max(approved, e.number), true
		case e.word == wordCreated && manual && e.number > approved:
			l.addViolation("%s number %d (%s) was created before a plan with it was approved", e.name, e.number, e.id)
		}
	}
}

// checkDuplicates finds resources that were created again although the tool that
// created them first was not killed, or had saved them before.
func (l *audit) checkDuplicates() {
	makers := map[int]entry{}
	for _, e := range l.entries {
		if e.word != wordCreated {
			continue
		}
		if before, again := makers[e.number]; again && before.id != e.id && !l.isLost(before) {
			l.addViolation("%s number %d was created twice (%s, then %s), and the first one was not lost in a kill", e.name, e.number, before.id, e.id)
		}
		makers[e.number] = e
	}
}

// checkConcurrency finds two tools that worked at the same time: a process that
// writes to the journal after another process has written to it.
func (l *audit) checkConcurrency() {
	last, over, killed := "", map[string]bool{}, map[string]bool{}
	for _, e := range l.entries {
		if e.word == wordKilled {
			killed[e.tool] = true
		}
		if e.word != wordCreated && e.word != wordDestroyed || e.tool == last {
			continue
		}
		if killed[e.tool] || strings.HasPrefix(e.tool, "1@") && len(killed) > 0 {
			// Child processes of a killed tool may still write.
			l.tally.Late++
			continue
		}
		if over[e.tool] {
			l.addViolation("processes %s and %s worked at the same time", last, e.tool)
		}
		over[last], last = true, e.tool
	}
}

// compareState finds resources that exist and are not in the state, and those in the
// state that do not exist.
func (l *audit) compareState(state map[string]resource) {
	for _, id := range slices.Sorted(maps.Keys(l.created)) {
		e := l.created[id]
		_, gone := l.destroyed[id]
		_, known := state[id]
		switch {
		case gone || known:
		case l.isLost(e):
			l.tally.Interrupted++
		default:
			l.addViolation("%s number %d (%s) exists and is not in the state", e.name, e.number, id)
		}
	}
	// What a killed tool had saved must be known too, even if its creation was not recorded yet.
	for _, id := range slices.Sorted(maps.Keys(l.saved)) {
		_, recorded := l.created[id]
		_, gone := l.destroyed[id]
		if _, known := state[id]; !recorded && !gone && !known {
			l.addViolation("%s was saved before a kill and is not in the state", id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(state)) {
		t := state[id]
		by, gone := l.destroyed[id]
		switch {
		case !gone:
		case l.killed[by.tool]:
			// A tool that was killed before it wrote its state destroys again.
			l.tally.Remembered++
		default:
			l.addViolation("%s number %d (%s) is in the state and was destroyed", t.Name, t.Number, id)
		}
	}
}

// compareDesired finds desired resources that are not in the state, and resources of
// the state that are not desired.
func (l *audit) compareDesired(state map[string]resource, wanted map[string]item) {
	found := map[string]resource{}
	for _, id := range slices.Sorted(maps.Keys(state)) {
		t := state[id]
		if _, made := l.created[id]; !made {
			l.addViolation("%s number %d (%s) is in the state and was never created", t.Name, t.Number, id)
		}
		if _, twice := found[t.Name]; twice {
			l.addViolation("%s is in the state twice", t.Name)
		}
		found[t.Name] = t
	}
	for _, name := range sorted(wanted) {
		t, ok := found[name]
		want := wanted[name]
		switch {
		case !ok:
			l.addViolation("%s number %d is wanted and not in the state", name, want.Number)
		case t.Number != want.Number || t.Tag != want.Tag:
			l.addViolation("%s is number %d with tag %s in the state, and number %d with tag %s is wanted", name, t.Number, t.Tag, want.Number, want.Tag)
		}
	}
	for _, name := range sorted(found) {
		if _, ok := wanted[name]; !ok {
			l.addViolation("%s number %d is in the state and not wanted", name, found[name].Number)
		}
	}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
