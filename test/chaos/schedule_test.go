package main

import (
	"testing"

	. "github.com/onsi/gomega"
)

const manySeeds = 300

func TestNewSchedule_isDeterminedByItsSeed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(newSchedule(7)).To(Equal(newSchedule(7)))
	g.Expect(newSchedule(7)).NotTo(Equal(newSchedule(8)))
}

// The audit relies on these properties: only existing resources are changed, a number
// is used once, and an unwanted number is never requested again.
func TestNewSchedule_isConsistent(t *testing.T) {
	t.Parallel()
	for seed := range uint64(manySeeds) {
		for _, s := range newSchedule(seed).Scenarios {
			l := &model{WithT: NewWithT(t), unwanted: map[int]bool{}, owner: map[int]string{}}
			for _, step := range s.Steps {
				l.run(step)
			}
			l.Expect(l.paused).To(BeFalse(), "seed %d: a paused workspace does not settle", seed)
			l.Expect(len(s.Steps)).To(BeNumerically(">", 3))
		}
	}
}

// model is the expected state of a workspace.
type model struct {
	*WithT
	exists, paused bool
	items          map[string]item
	unwanted       map[int]bool
	owner          map[int]string
}

func (l *model) run(s step) {
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
			l.unwanted[number] = true
		}
	}
	for _, number := range s.Unwanted {
		l.unwanted[number] = true
	}
	if s.Do == opChange {
		for name, it := range l.items {
			if s.Items[name].Number != it.Number {
				l.Expect(l.unwanted[it.Number]).To(BeTrue(), "a removed resource is unwanted")
			}
		}
	}
	l.items = s.Items
	for name, it := range s.Items {
		l.Expect(l.unwanted[it.Number] && l.exists).To(BeFalse(), "an unwanted number is not requested again")
		owner, known := l.owner[it.Number]
		l.Expect(!known || owner == name).To(BeTrue(), "a number is used once")
		l.owner[it.Number] = name
	}
}

func TestNewSchedule_hasEveryOperationAndFault(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	operations, faults, overlapping := map[operation]bool{}, map[fault]bool{}, 0
	for seed := range uint64(manySeeds) {
		s := newSchedule(seed)
		for _, scenario := range s.Scenarios {
			for _, step := range scenario.Steps {
				operations[step.Do] = true
			}
			for _, m := range scenario.Injections {
				faults[m.Fault] = true
			}
		}
		for i, m := range s.Injections {
			faults[m.Fault] = true
			g.Expect(m.At).To(BeNumerically("<", actTime))
			if i > 0 && m.At-s.Injections[i-1].At < m.For {
				overlapping++
			}
		}
	}
	g.Expect(operations).To(HaveLen(7))
	g.Expect(faults).To(HaveLen(len(partFaults) + len(runFaults)))
	g.Expect(overlapping).To(BeNumerically(">", manySeeds/10), "some injections overlap")
}
