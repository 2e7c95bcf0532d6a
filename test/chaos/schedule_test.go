package main

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
)

const manySeeds = 300

// forms are all forms of a run.
func forms() []form {
	var all []form
	for _, executor := range []string{executorProcess, executorJob} {
		for _, backend := range []string{backendKubernetes, backendHTTP, backendS3} {
			all = append(all, form{executor: executor, backend: backend})
		}
	}
	return all
}

func TestNewSchedule_isDeterminedByItsSeedAndForm(t *testing.T) {
	t.Parallel()
	for _, f := range forms() {
		g := NewWithT(t)
		g.Expect(newSchedule(7, f)).To(Equal(newSchedule(7, f)))
		g.Expect(newSchedule(7, f)).NotTo(Equal(newSchedule(8, f)))
	}
}

// The audit relies on these properties: only existing resources are changed, a number
// is used once, and an unwanted number is never requested again.
func TestNewSchedule_isConsistent(t *testing.T) {
	t.Parallel()
	for seed := range uint64(manySeeds) {
		f := forms()[seed%uint64(len(forms()))]
		for _, s := range newSchedule(seed, f).Scenarios {
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
	case opApprove, opRetain, opFault:
		l.Expect(l.paused).To(BeFalse())
		l.exists = s.Do != opRetain
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
	for _, f := range forms() {
		g := NewWithT(t)
		operations, faults, changing, overlapping := map[operation]bool{}, map[fault]bool{}, map[bool]bool{}, 0
		for seed := range uint64(manySeeds) {
			s := newSchedule(seed, f)
			for _, scenario := range s.Scenarios {
				for _, step := range scenario.Steps {
					operations[step.Do] = true
					g.Expect(step.Fault != "").To(Equal(step.Do == opFault))
					if step.Do == opFault {
						faults[step.Fault] = true
					}
				}
				for _, m := range scenario.Injections {
					faults[m.Fault] = true
					changing[m.Changing] = true
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
		g.Expect(operations).To(HaveLen(9))
		g.Expect(changing).To(HaveLen(2))
		g.Expect(faults).To(HaveLen(len(f.partFaults()) + len(f.runFaults()) + len(f.stepFaults())))
		g.Expect(overlapping).To(BeNumerically(">", manySeeds/10), "some injections overlap")
	}
}

func TestForm_choosesPossibleFaults(t *testing.T) {
	t.Parallel()
	has := func(from []weightedFault, f fault) bool {
		return slices.ContainsFunc(from, func(w weightedFault) bool { return w.fault == f })
	}
	for _, f := range forms() {
		g := NewWithT(t)
		g.Expect(has(f.partFaults(), expireBackend)).To(Equal(f.backend != backendKubernetes))
		for _, onNode := range []fault{loseNode, stopKubelet, stopContainerd} {
			g.Expect(has(f.partFaults(), onNode)).To(Equal(f.executor == executorJob))
		}
		for _, supervised := range []fault{killClusterAPI, killSupervisor, termSupervisor} {
			g.Expect(has(f.partFaults(), supervised)).To(Equal(f.executor == executorProcess), "there is none with Jobs")
		}
		g.Expect(has(f.runFaults(), killProvider)).To(Equal(f.hasProvider()))
		for _, inPod := range []fault{deletePod, evictPod, killContainer, killShim} {
			g.Expect(has(f.runFaults(), inPod)).To(Equal(f.executor == executorJob))
		}
	}
}
