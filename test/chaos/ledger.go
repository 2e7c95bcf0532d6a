package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A journal has one line for everything that happened to a workspace, in the
// order in which it happened: what its module made and destroyed, written by the
// module itself, and what was asked for and killed, written before it was done.
const (
	wordMade      = "made"
	wordDestroyed = "destroyed"
	wordUnwanted  = "unwanted"
	wordDeleted   = "deleted"
	wordKilled    = "killed"
)

// entry is one line of a journal.
type entry struct {
	word string
	// name, number and id are the resource's; number is also the one that is
	// unwanted, or the last of those that a deletion makes unwanted.
	name   string
	number int
	id     string
	// pid is the tool's process.
	pid int
}

func unwantedLine(number int) string { return fmt.Sprintf("%s %d\n", wordUnwanted, number) }
func deletedLine(number int) string  { return fmt.Sprintf("%s %d\n", wordDeleted, number) }
func killedLine(pid int) string      { return fmt.Sprintf("%s %d\n", wordKilled, pid) }

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
		case (e.word == wordMade || e.word == wordDestroyed) && len(fields) == 5:
			e.name, e.id = fields[1], fields[3]
			if e.number, err = strconv.Atoi(fields[2]); err == nil {
				e.pid, err = strconv.Atoi(fields[4])
			}
		case (e.word == wordUnwanted || e.word == wordDeleted) && len(fields) == 2:
			e.number, err = strconv.Atoi(fields[1])
		case e.word == wordKilled && len(fields) == 2:
			e.pid, err = strconv.Atoi(fields[1])
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

// thing is a resource as the state has it.
type thing struct {
	Name   string
	Number int
	Tag    string
}

// tally counts what is not a violation, and yet worth knowing.
type tally struct {
	Made      int `json:"made"`
	Destroyed int `json:"destroyed"`
	// Interrupted are resources that were made by a tool which was killed
	// before it wrote its state. No tool can know them, and they are left.
	Interrupted int `json:"interruptedCreates"`
	// Repeated are resources that were destroyed again, because the tool was
	// stopped before it wrote down that they are gone.
	Repeated int `json:"repeatedDestroys"`
}

func (t *tally) add(other tally) {
	t.Made += other.Made
	t.Destroyed += other.Destroyed
	t.Interrupted += other.Interrupted
	t.Repeated += other.Repeated
}

// ledger is what a journal tells.
type ledger struct {
	entries []entry
	// killed are processes that were killed, made and destroyed the resources
	// by id.
	killed          map[int]bool
	made, destroyed map[string]entry
	tally           tally
	found           []string
}

// examine compares a journal with the state by id, and the state with what is
// wanted by name; nil is a state that need not be complete. It returns what is
// wrong.
func examine(entries []entry, state map[string]thing, wanted map[string]item) ([]string, tally) {
	// A process whose parent is gone when it looks has the first one.
	l := &ledger{entries: entries, killed: map[int]bool{1: true}, made: map[string]entry{}, destroyed: map[string]entry{}}
	for _, e := range entries {
		if e.word == wordKilled {
			l.killed[e.pid] = true
		}
	}
	l.explain()
	l.onceEach()
	l.oneAtATime()
	l.compare(state)
	if wanted != nil {
		l.complete(state, wanted)
	}
	return l.found, l.tally
}

func (l *ledger) violate(format string, args ...any) {
	l.found = append(l.found, fmt.Sprintf(format, args...))
}

// explain finds what was destroyed without being asked for.
func (l *ledger) explain() {
	unwanted, deleted := map[int]bool{}, 0
	for _, e := range l.entries {
		switch e.word {
		case wordUnwanted:
			unwanted[e.number] = true
		case wordDeleted:
			deleted = max(deleted, e.number)
		case wordMade:
			l.tally.Made++
			l.made[e.id] = e
		case wordDestroyed:
			l.tally.Destroyed++
			if !unwanted[e.number] && e.number > deleted {
				l.violate("%s number %d (%s) was destroyed without a request", e.name, e.number, e.id)
			}
			if _, again := l.destroyed[e.id]; again {
				l.tally.Repeated++
			}
			l.destroyed[e.id] = e
		}
	}
}

// onceEach finds what was made again although the one that made it before was
// not killed.
func (l *ledger) onceEach() {
	makers := map[int]entry{}
	for _, e := range l.entries {
		if e.word != wordMade {
			continue
		}
		if before, again := makers[e.number]; again && !l.killed[before.pid] {
			l.violate("%s number %d was made twice (%s, then %s), and the first run was not killed", e.name, e.number, before.id, e.id)
		}
		makers[e.number] = e
	}
}

// oneAtATime finds two tools at work at once: a process that writes again after
// another one did.
func (l *ledger) oneAtATime() {
	last, over := 0, map[int]bool{}
	for _, e := range l.entries {
		// What a killed tool began may continue without it.
		if e.word != wordMade && e.word != wordDestroyed || l.killed[e.pid] || e.pid == last {
			continue
		}
		if over[e.pid] {
			l.violate("processes %d and %d worked at the same time", last, e.pid)
		}
		over[last], last = true, e.pid
	}
}

// compare finds what exists and is not in the state, and the other way round.
func (l *ledger) compare(state map[string]thing) {
	for _, id := range slices.Sorted(maps.Keys(l.made)) {
		e := l.made[id]
		_, gone := l.destroyed[id]
		_, known := state[id]
		switch {
		case gone || known:
		case l.killed[e.pid]:
			l.tally.Interrupted++
		default:
			l.violate("%s number %d (%s) exists and is not in the state", e.name, e.number, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(state)) {
		t := state[id]
		// One that was stopped before it wrote its state destroys again.
		if by, gone := l.destroyed[id]; gone && !l.killed[by.pid] {
			l.violate("%s number %d (%s) is in the state and was destroyed", t.Name, t.Number, id)
		}
	}
}

// complete finds what is wanted and not there, and what is there and not wanted.
func (l *ledger) complete(state map[string]thing, wanted map[string]item) {
	found := map[string]thing{}
	for _, id := range slices.Sorted(maps.Keys(state)) {
		t := state[id]
		if _, made := l.made[id]; !made {
			l.violate("%s number %d (%s) is in the state and was never made", t.Name, t.Number, id)
		}
		if _, twice := found[t.Name]; twice {
			l.violate("%s is in the state twice", t.Name)
		}
		found[t.Name] = t
	}
	for _, name := range sorted(wanted) {
		t, ok := found[name]
		want := wanted[name]
		switch {
		case !ok:
			l.violate("%s number %d is wanted and not in the state", name, want.Number)
		case t.Number != want.Number || t.Tag != want.Tag:
			l.violate("%s is number %d with tag %s in the state, and number %d with tag %s is wanted", name, t.Number, t.Tag, want.Number, want.Tag)
		}
	}
	for _, name := range sorted(found) {
		if _, ok := wanted[name]; !ok {
			l.violate("%s number %d is in the state and not wanted", name, found[name].Number)
		}
	}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
