package main

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestExamine_findsViolations(t *testing.T) {
	t.Parallel()
	one := map[string]resource{"id1": {Name: "a", Number: 1, Tag: "x"}}
	wantOne := map[string]item{"a": {Number: 1, Tag: "x"}}
	for name, test := range map[string]struct {
		journal string
		state   map[string]resource
		wanted  map[string]item
		// found are parts of the violations, in order.
		found []string
		tally tally
	}{
		"nothing happened":         {wanted: map[string]item{}},
		"the wanted state":         {journal: createdLine("a", 1, "id1", 10), state: one, wanted: wantOne, tally: tally{Created: 1}},
		"an orphan":                {journal: createdLine("a", 1, "id1", 10), wanted: map[string]item{}, found: []string{"exists and is not in the state"}, tally: tally{Created: 1}},
		"an orphan, retained":      {journal: createdLine("a", 1, "id1", 10), found: []string{"exists and is not in the state"}, tally: tally{Created: 1}},
		"a create that was killed": {journal: killedLine("10@7") + createdLine("a", 1, "id1", 10), wanted: map[string]item{}, tally: tally{Created: 1, Interrupted: 1, Late: 1}},
		"a create whose tool was killed before": {
			journal: killedLine("10@7") + createdLine("a", 1, "id1", 1), wanted: map[string]item{}, tally: tally{Created: 1, Interrupted: 1, Late: 1},
		},
		"a create whose tool had exited without a kill": {
			journal: createdLine("a", 1, "id1", 1) + killedLine("10@7"), wanted: map[string]item{},
			found: []string{"exists and is not in the state"}, tally: tally{Created: 1},
		},
		"saved before the kill, and its creation not recorded": {
			journal: killedLine("10@7") + savedLine("id1"), wanted: map[string]item{}, found: []string{"id1 was saved before a kill and is not in the state"},
		},
		"created before the approval": {
			journal: approvedLine(0) + createdLine("a", 1, "id1", 10) + approvedLine(1), state: one, wanted: wantOne,
			found: []string{"a number 1 (id1) was created before a plan with it was approved"}, tally: tally{Created: 1},
		},
		"created after the approval": {
			journal: approvedLine(0) + approvedLine(1) + createdLine("a", 1, "id1", 10), state: one, wanted: wantOne, tally: tally{Created: 1},
		},
		"recorded again": {
			journal: createdLine("a", 1, "id1", 10) + createdLine("a", 1, "id1", 11), state: one, wanted: wantOne, tally: tally{Created: 2, Recorded: 1},
			found: []string{"was created twice, and the first tool was neither killed nor interrupted"},
		},
		"recorded again after an interrupt": {
			journal: interruptedLine("10@7") + createdLine("a", 1, "id1", 10) + createdLine("a", 1, "id1", 11), state: one, wanted: wantOne, tally: tally{Created: 2, Recorded: 1},
		},
		"recorded again after the record of a run was deleted": {
			journal: createdLine("a", 1, "id1", 10) + interruptedLine(anyTool) + createdLine("a", 1, "id1", 11), state: one, wanted: wantOne, tally: tally{Created: 2, Recorded: 1},
		},
		"recorded again after the interrupt of another tool": {
			journal: createdLine("a", 1, "id1", 10) + interruptedLine("11@7") + createdLine("a", 1, "id1", 11), state: one, wanted: wantOne, tally: tally{Created: 2, Recorded: 1},
			found: []string{"neither killed nor interrupted"},
		},
		"destroyed by a killed tool and still in the state": {
			journal: createdLine("a", 1, "id1", 10) + unwantedLine(1) + killedLine("11@7") + destroyedLine(1, "id1", 11), state: one,
			tally: tally{Created: 1, Destroyed: 1, Late: 1, Remembered: 1},
		},
		"a create that was saved before the kill": {
			journal: createdLine("a", 1, "id1", 10) + killedLine("10@7") + savedLine("id1"), wanted: map[string]item{},
			found: []string{"exists and is not in the state"}, tally: tally{Created: 1},
		},
		"created again although it was saved": {
			journal: createdLine("a", 1, "id0", 10) + killedLine("10@7") + savedLine("id0") + createdLine("a", 1, "id1", 11), state: one, wanted: wantOne,
			found: []string{"was created twice", "(id0) exists and is not in the state"}, tally: tally{Created: 2},
		},
		"created again after a kill": {
			journal: createdLine("a", 1, "id0", 10) + killedLine("10@7") + createdLine("a", 1, "id1", 11), state: one, wanted: wantOne,
			tally: tally{Created: 2, Interrupted: 1},
		},
		"created again without a kill": {
			journal: createdLine("a", 1, "id0", 10) + createdLine("a", 1, "id1", 11), state: one, wanted: wantOne,
			found: []string{"was created twice", "(id0) exists and is not in the state"}, tally: tally{Created: 2},
		},
		"destroyed as requested": {
			journal: createdLine("a", 1, "id1", 10) + unwantedLine(1) + destroyedLine(1, "id1", 11), wanted: map[string]item{},
			tally: tally{Created: 1, Destroyed: 1},
		},
		"destroyed with its workspace": {
			journal: createdLine("a", 1, "id1", 10) + deletedLine(1) + destroyedLine(1, "id1", 11), wanted: map[string]item{},
			tally: tally{Created: 1, Destroyed: 1},
		},
		"destroyed before the request": {
			journal: createdLine("a", 1, "id1", 10) + destroyedLine(1, "id1", 11) + unwantedLine(1), wanted: map[string]item{},
			found: []string{"was destroyed without a request"}, tally: tally{Created: 1, Destroyed: 1},
		},
		"the successor of a deleted one is destroyed": {
			journal: createdLine("a", 1, "id1", 10) + deletedLine(1) + createdLine("a", 2, "id2", 11) + destroyedLine(2, "id2", 11) + destroyedLine(1, "id1", 11), wanted: map[string]item{},
			found: []string{"a number 2 (id2) was destroyed without a request"}, tally: tally{Created: 2, Destroyed: 2},
		},
		"destroyed again after a kill": {
			journal: createdLine("a", 1, "id1", 10) + deletedLine(1) + destroyedLine(1, "id1", 11) + killedLine("11@7") + destroyedLine(1, "id1", 12), wanted: map[string]item{},
			tally: tally{Created: 1, Destroyed: 2, Repeated: 1},
		},
		"destroyed and still in the state": {
			journal: createdLine("a", 1, "id1", 10) + unwantedLine(1) + destroyedLine(1, "id1", 11), state: one,
			found: []string{"is in the state and was destroyed"}, tally: tally{Created: 1, Destroyed: 1},
		},
		"two tools at once": {
			journal: createdLine("a", 1, "id1", 10) + createdLine("b", 2, "id2", 11) + createdLine("c", 3, "id3", 10),
			state:   map[string]resource{"id1": {Name: "a"}, "id2": {Name: "b"}, "id3": {Name: "c"}},
			found:   []string{"processes 11@7 and 10@7 worked at the same time"}, tally: tally{Created: 3},
		},
		"a child of a killed tool still writes": {
			journal: createdLine("a", 1, "id1", 10) + killedLine("10@7") + createdLine("b", 2, "id2", 11) + createdLine("c", 3, "id3", 10),
			state:   map[string]resource{"id1": {Name: "a"}, "id2": {Name: "b"}},
			tally:   tally{Created: 3, Interrupted: 1, Late: 1},
		},
		"in the state and never created": {state: one, wanted: wantOne, found: []string{"was never created"}},
		"tainted when it was retained":   {state: one},
		"another state than wanted": {
			journal: createdLine("a", 1, "id1", 10), state: one, wanted: map[string]item{"a": {Number: 2, Tag: "x"}, "b": {Number: 3}},
			found: []string{"number 2 with tag x is wanted", "b number 3 is wanted and not in the state"}, tally: tally{Created: 1},
		},
		"more resources than wanted": {
			journal: createdLine("a", 1, "id1", 10), state: one, wanted: map[string]item{},
			found: []string{"in the state and not wanted"}, tally: tally{Created: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			entries, err := parseJournal(test.journal)
			g.Expect(err).NotTo(HaveOccurred())
			found, counts := examine(entries, test.state, test.wanted)
			g.Expect(found).To(HaveLen(len(test.found)), strings.Join(found, "\n"))
			for i := range test.found {
				g.Expect(found[i]).To(ContainSubstring(test.found[i]))
			}
			g.Expect(counts).To(Equal(test.tally))
		})
	}
}

func TestParseJournal_rejectsUnknownLines(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"created a", "created a x id 1@7", "destroyed a 1 id", "killed", "unwanted x", "other 1"} {
		_, err := parseJournal(line + "\n")
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(line)), line)
	}
}

func createdLine(name string, number int, id string, pid int) string {
	return fmt.Sprintf("%s %s %d %s %d@7\n", wordCreated, name, number, id, pid)
}

func destroyedLine(number int, id string, pid int) string {
	return fmt.Sprintf("%s a %d %s %d@7\n", wordDestroyed, number, id, pid)
}
