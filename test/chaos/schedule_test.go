package main

import (
	"testing"

	. "github.com/onsi/gomega"
)

const manySeeds = 300

func TestNewSchedule_followsFromItsSeed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(newSchedule(7)).To(Equal(newSchedule(7)))
	g.Expect(newSchedule(7)).NotTo(Equal(newSchedule(8)))
}

// TestNewSchedule_canBeLived holds what the checks rest on: only what exists is
// changed, a number is used once, and one that was given up never comes back.
func TestNewSchedule_canBeLived(t *testing.T) {
	t.Parallel()
	for seed := range uint64(manySeeds) {
		for _, s := range newSchedule(seed).Stories {
			l := &life{WithT: NewWithT(t), gone: map[int]bool{}, owner: map[int]string{}}
			for _, step := range s.Steps {
				l.live(step)
			}
			l.Expect(l.paused).To(BeFalse(), "seed %d: nothing settles while it is paused", seed)
			l.Expect(len(s.Steps)).To(BeNumerically(">", 3))
		}
	}
}

// life follows a story.
type life struct {
	*WithT
	exists, paused bool
	items          map[string]item
	gone           map[int]bool
	owner          map[int]string
}

func (l *life) live(s step) {
	if s.Do == opCreate {
		l.Expect(l.exists).To(BeFalse())
		l.exists = true
	} else {
		l.Expect(l.exists).To(BeTrue(), "%s", s.Do)
	}
	switch s.Do {
	case opPause, opUnpause:
		l.Expect(l.paused).To(Equal(s.Do == opUnpause))
		l.paused = s.Do == opPause
	case opApprove, opRetain:
		l.Expect(l.paused).To(BeFalse())
		l.exists = s.Do == opApprove
	case opDelete:
		l.Expect(l.paused).To(BeFalse())
		l.exists = false
		for number := range l.owner {
			l.gone[number] = true
		}
	}
	for _, number := range s.Unwanted {
		l.gone[number] = true
	}
	if s.Do == opChange {
		for name, it := range l.items {
			if s.Items[name].Number != it.Number {
				l.Expect(l.gone[it.Number]).To(BeTrue(), "what goes was given up")
			}
		}
	}
	l.items = s.Items
	for name, it := range s.Items {
		l.Expect(l.gone[it.Number] && l.exists).To(BeFalse(), "what was given up does not come back")
		owner, known := l.owner[it.Number]
		l.Expect(!known || owner == name).To(BeTrue(), "a number is used once")
		l.owner[it.Number] = name
	}
}

func TestNewSchedule_hasEveryOperationAndFault(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	operations, faults, atOnce := map[operation]bool{}, map[fault]bool{}, 0
	for seed := range uint64(manySeeds) {
		s := newSchedule(seed)
		for _, story := range s.Stories {
			for _, step := range story.Steps {
				operations[step.Do] = true
			}
			for _, m := range story.Mishaps {
				faults[m.Fault] = true
			}
		}
		for i, m := range s.Mishaps {
			faults[m.Fault] = true
			g.Expect(m.At).To(BeNumerically("<", actTime))
			if i > 0 && m.At-s.Mishaps[i-1].At < m.For {
				atOnce++
			}
		}
	}
	g.Expect(operations).To(HaveLen(7))
	g.Expect(faults).To(HaveLen(len(ofParts) + len(ofRuns)))
	g.Expect(atOnce).To(BeNumerically(">", manySeeds/10), "several things go wrong at once")
}
