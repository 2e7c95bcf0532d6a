package machines

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// set is a set of a deployment that wanted ten machines and could have eleven,
// with as many machines as it is told to have, of which some are available. Its
// age is its revision.
func set(revision int64, size, available int32, change ...func(*Set)) *Set {
	name := fmt.Sprintf("r%d", revision)
	s := &Set{
		Name: name, UID: types.UID(name), Created: noon.Add(time.Duration(revision) * time.Hour), Revision: revision,
		Replicas: size, Settled: true, Desired: 10, Max: 11,
	}
	for i := range size {
		m := ready(fmt.Sprintf("%s-%d", name, i), 1)
		if i >= available {
			unready(&m)
		}
		s.Machines = append(s.Machines, m)
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func unsettled(s *Set) { s.Settled = false }

// told changes only what a set is told, not what it has.
func told(size int32) func(*Set) { return func(s *Set) { s.Replicas, s.Settled = size, false } }

func desired(desired, limit int32) func(*Set) {
	return func(s *Set) { s.Desired, s.Max = desired, limit }
}

// text tells what a plan does.
func text(p Plan) string {
	result := ""
	if p.Create {
		result += fmt.Sprintf("create %d ", p.Size)
	}
	for _, size := range p.Resize {
		result += fmt.Sprintf("%s:%d>%d ", size.Set.Name, size.Set.Replicas, size.To)
	}
	for _, gone := range p.Remove {
		result += fmt.Sprintf("remove %s ", gone.Name)
	}
	if p.Unsettled != "" {
		result += "unsettled " + p.Unsettled + " "
	}
	if result == "" {
		return "nothing"
	}
	return result[:len(result)-1]
}

// planned is a case of planning: ten machines are wanted unless it says
// otherwise.
type planned struct {
	name    string
	rollout Rollout
	want    string
}

func (p planned) run(t *testing.T) {
	r := p.rollout
	r.Now = noon
	if r.Strategy == "" {
		r.Strategy = infrav1.RollingUpdateStrategy
	}
	NewWithT(t).Expect(text(r.Plan())).To(Equal(p.want))
}

func TestPlan_rollingUpdate(t *testing.T) {
	surge1, mixed := Limits{Surge: 1}, Limits{Surge: 3, Unavailable: 2}
	for _, tt := range []planned{
		{name: "the first set has all machines", rollout: Rollout{Replicas: 10, Limits: surge1}, want: "create 10"},
		{name: "a new one has the surge", rollout: Rollout{Replicas: 10, Limits: mixed, Old: []*Set{set(1, 10, 10)}}, want: "create 3"},
		{
			name:    "a new one has none when there are too many already",
			rollout: Rollout{Replicas: 10, Limits: mixed, Old: []*Set{set(1, 8, 8), set(2, 5, 0)}}, want: "create 0",
		},
		{
			name:    "none before an old set has acted",
			rollout: Rollout{Replicas: 10, Limits: mixed, Old: []*Set{set(1, 10, 10, unsettled)}}, want: "create 0 unsettled r1",
		},
		{
			name:    "what is not available is not counted on",
			rollout: Rollout{Replicas: 10, Limits: mixed, Current: set(2, 3, 0), Old: []*Set{set(1, 10, 10)}}, want: "r1:10>8",
		},
		{
			name:    "the current set grows by what the old one lost",
			rollout: Rollout{Replicas: 10, Limits: mixed, Current: set(2, 3, 0), Old: []*Set{set(1, 8, 8)}}, want: "r2:3>5",
		},
		{
			name:    "what the old set still has counts",
			rollout: Rollout{Replicas: 10, Limits: mixed, Current: set(2, 3, 3), Old: []*Set{set(1, 10, 10, told(8))}}, want: "r1:8>5 unsettled r1",
		},
		{
			name:    "a template that does not work takes nothing more",
			rollout: Rollout{Replicas: 10, Limits: mixed, Current: set(2, 5, 0), Old: []*Set{set(1, 8, 8)}}, want: "nothing",
		},
		{
			name:    "nor when an old machine fails",
			rollout: Rollout{Replicas: 10, Limits: mixed, Current: set(2, 5, 0), Old: []*Set{set(1, 8, 7)}}, want: "nothing",
		},
		{
			name:    "back from it: what does not work goes first",
			rollout: Rollout{Replicas: 10, Limits: mixed, Current: set(1, 8, 8), Old: []*Set{set(2, 5, 0)}}, want: "r2:5>0",
		},
		{
			name:    "rolling over: first what does not work",
			rollout: Rollout{Replicas: 10, Limits: mixed, Current: set(3, 0, 0), Old: []*Set{set(1, 8, 8), set(2, 5, 0)}}, want: "r2:5>0",
		},
		{
			name:    "what is unavailable goes from every old set before what is spare",
			rollout: Rollout{Replicas: 10, Limits: Limits{Surge: 1, Unavailable: 2}, Current: set(3, 0, 0), Old: []*Set{set(1, 6, 6), set(2, 5, 4)}},
			want:    "r1:6>4 r2:5>4",
		},
		{
			name: "ready is not yet available",
			rollout: Rollout{Replicas: 3, Limits: surge1, Old: []*Set{set(1, 3, 3, desired(3, 4))}, Current: set(2, 1, 1, desired(3, 4), func(s *Set) {
				s.MinReady = time.Hour
			})},
			want: "nothing",
		},
		{
			name:    "without surge one goes before one comes",
			rollout: Rollout{Replicas: 2, Limits: Limits{Unavailable: 1}, Current: set(2, 0, 0), Old: []*Set{set(1, 2, 2, desired(2, 2))}}, want: "r1:2>1",
		},
		{
			name:    "a marked machine is spared until it can be",
			rollout: Rollout{Replicas: 3, Limits: surge1, Current: set(2, 1, 1, desired(3, 4)), Old: []*Set{set(1, 3, 2, desired(3, 4), func(s *Set) { marked(&s.Machines[0]) })}},
			want:    "nothing",
		},
		{
			name:    "machines that are on their way are not there",
			rollout: Rollout{Replicas: 3, Limits: surge1, Current: set(2, 1, 1, desired(3, 4)), Old: []*Set{set(1, 3, 3, desired(3, 4), func(s *Set) { deleting(&s.Machines[0]) })}},
			want:    "r1:3>2",
		},
		{
			name:    "a set that is being deleted is to have none",
			rollout: Rollout{Replicas: 3, Limits: surge1, Current: set(2, 3, 3, desired(3, 4)), Old: []*Set{set(1, 3, 0, told(0), func(s *Set) { s.Deleting, s.Settled = true, true })}},
			want:    "nothing",
		},
		{name: "nothing is wanted", rollout: Rollout{Current: set(1, 0, 0)}, want: "nothing"},
		{name: "the current set is too large", rollout: Rollout{Replicas: 10, Limits: surge1, Current: set(1, 12, 12)}, want: "r1:12>10"},
	} {
		t.Run(tt.name, tt.run)
	}
}

func TestPlan_history(t *testing.T) {
	old := []*Set{set(1, 0, 0), set(2, 0, 0), set(3, 0, 0)}
	for _, tt := range []planned{
		{name: "kept", rollout: Rollout{Replicas: 10, Current: set(4, 10, 10), Old: old, History: 3}, want: "nothing"},
		{name: "the lowest revisions go", rollout: Rollout{Replicas: 10, Current: set(4, 10, 10), Old: old, History: 1}, want: "remove r1 remove r2"},
		{name: "all", rollout: Rollout{Replicas: 10, Current: set(4, 10, 10), Old: old}, want: "remove r1 remove r2 remove r3"},
		{name: "not before the rollout is complete", rollout: Rollout{Replicas: 10, Current: set(4, 10, 9), Old: old}, want: "nothing"},
		{
			name:    "not what is not empty yet",
			rollout: Rollout{Replicas: 10, Current: set(4, 10, 10), Old: []*Set{set(1, 0, 0, unsettled), set(2, 0, 0)}}, want: "remove r2 unsettled r1",
		},
		{
			name:    "not what goes already",
			rollout: Rollout{Replicas: 10, Current: set(4, 10, 10), Old: []*Set{set(1, 0, 0, func(s *Set) { s.Deleting = true }), set(2, 0, 0)}, History: 1}, want: "nothing",
		},
		{name: "not while held", rollout: Rollout{Replicas: 10, Held: true, Current: set(4, 10, 10), Old: old}, want: "nothing"},
	} {
		t.Run(tt.name, tt.run)
	}
}

func TestPlan_scaling(t *testing.T) {
	mixed := Limits{Surge: 3, Unavailable: 2}
	for _, tt := range []planned{
		{name: "one set takes all", rollout: Rollout{Replicas: 15, Limits: mixed, Current: set(1, 10, 10)}, want: "r1:10>15"},
		{name: "and gives all", rollout: Rollout{Replicas: 4, Limits: mixed, Current: set(1, 10, 10)}, want: "r1:10>4"},
		{name: "to nothing", rollout: Rollout{Replicas: 0, Current: set(1, 10, 10)}, want: "r1:10>0"},
		{name: "from nothing", rollout: Rollout{Replicas: 4, Limits: mixed, Current: set(1, 0, 0, desired(0, 0))}, want: "r1:0>4"},
		{
			name:    "the only one with machines, though it is old",
			rollout: Rollout{Replicas: 15, Limits: mixed, Current: set(2, 0, 0), Old: []*Set{set(1, 10, 10)}}, want: "r1:10>15",
		},
		{
			name:    "what was sized for it is only remembered",
			rollout: Rollout{Replicas: 10, Limits: mixed, Current: set(1, 10, 10, desired(9, 12))}, want: "r1:10>10",
		},
		{
			name:    "several in proportion",
			rollout: Rollout{Replicas: 15, Limits: mixed, Current: set(2, 5, 5, desired(10, 13)), Old: []*Set{set(1, 8, 8, desired(10, 13))}}, want: "r1:8>11 r2:5>7",
		},
		{
			name:    "of equal ones the newer grows by what is left",
			rollout: Rollout{Replicas: 11, Limits: Limits{Surge: 1}, Current: set(2, 5, 5, desired(9, 10)), Old: []*Set{set(1, 5, 5, desired(9, 10))}}, want: "r1:5>6 r2:5>6",
		},
		{
			name:    "no more than there is room for",
			rollout: Rollout{Replicas: 11, Limits: Limits{Surge: 1}, Current: set(3, 3, 3, desired(10, 4)), Old: []*Set{set(1, 4, 4, desired(10, 4)), set(2, 3, 3, desired(10, 4))}},
			want:    "r1:4>6 r2:3>3 r3:3>3",
		},
		{
			name:    "down in proportion",
			rollout: Rollout{Replicas: 5, Limits: mixed, Current: set(2, 5, 5, desired(10, 13)), Old: []*Set{set(1, 8, 8, desired(10, 13))}}, want: "r1:8>5 r2:5>3",
		},
		{
			name:    "proportions give way to availability",
			rollout: Rollout{Replicas: 5, Limits: Limits{Surge: 1}, Current: set(2, 5, 0, desired(10, 13)), Old: []*Set{set(1, 8, 8, desired(10, 13))}}, want: "r1:8>5 r2:5>1",
		},
		{
			name:    "all to nothing",
			rollout: Rollout{Replicas: 0, Current: set(2, 5, 5), Old: []*Set{set(1, 8, 8)}}, want: "r1:8>0 r2:5>0",
		},
		{
			name:    "nothing grows before the sets have acted",
			rollout: Rollout{Replicas: 15, Limits: mixed, Current: set(2, 5, 5, unsettled), Old: []*Set{set(1, 8, 8)}}, want: "unsettled r2",
		},
		{
			name:    "nor while there are still more machines than there are to be",
			rollout: Rollout{Replicas: 12, Limits: mixed, Current: set(2, 3, 3), Old: []*Set{set(1, 12, 12, func(s *Set) { s.Replicas = 8 })}}, want: "nothing",
		},
		{
			name:    "the current set has everything: the others go",
			rollout: Rollout{Replicas: 10, Limits: mixed, Current: set(2, 10, 10), Old: []*Set{set(1, 2, 2, desired(2, 2))}}, want: "r1:2>0",
		},
		{
			name:    "without a note of the size the present one is the base",
			rollout: Rollout{Replicas: 20, Limits: Limits{Surge: 2}, Current: set(2, 5, 5, desired(10, -1)), Old: []*Set{set(1, 6, 6, desired(10, -1))}}, want: "r1:6>12 r2:5>10",
		},
		{
			name:    "what is not available goes before what is marked elsewhere",
			rollout: Rollout{Replicas: 2, Limits: Limits{}, Current: set(2, 2, 0), Old: []*Set{set(1, 2, 2, func(s *Set) { marked(&s.Machines[0]) })}}, want: "r1:2>2 r2:2>0",
		},
	} {
		t.Run(tt.name, tt.run)
	}
}

func TestPlan_held(t *testing.T) {
	mixed := Limits{Surge: 3, Unavailable: 2}
	for _, tt := range []planned{
		{name: "no set is made", rollout: Rollout{Replicas: 10, Held: true, Limits: mixed}, want: "nothing"},
		{name: "nothing is rolled out", rollout: Rollout{Replicas: 10, Held: true, Limits: mixed, Old: []*Set{set(1, 10, 10)}}, want: "nothing"},
		{name: "the latest set scales", rollout: Rollout{Replicas: 12, Held: true, Limits: mixed, Old: []*Set{set(1, 0, 0), set(2, 10, 10)}}, want: "r2:10>12"},
		{name: "even when it has none", rollout: Rollout{Replicas: 2, Held: true, Limits: mixed, Old: []*Set{set(1, 0, 0), set(2, 0, 0)}}, want: "r2:0>2"},
		{
			name:    "several scale in proportion",
			rollout: Rollout{Replicas: 15, Held: true, Limits: mixed, Current: set(2, 5, 5, desired(10, 13)), Old: []*Set{set(1, 8, 8, desired(10, 13))}}, want: "r1:8>11 r2:5>7",
		},
		{
			name:    "and stay",
			rollout: Rollout{Replicas: 10, Held: true, Limits: mixed, Current: set(2, 5, 5, desired(10, 13)), Old: []*Set{set(1, 8, 8, desired(10, 13))}}, want: "nothing",
		},
	} {
		t.Run(tt.name, tt.run)
	}
}

func TestPlan_onDelete(t *testing.T) {
	lost := func(n int) func(*Set) { return func(s *Set) { s.Machines = s.Machines[n:] } }
	for _, tt := range []planned{
		{name: "the first set", rollout: Rollout{Replicas: 10}, want: "create 10"},
		{name: "a new one waits for deletions", rollout: Rollout{Replicas: 10, Old: []*Set{set(1, 10, 10)}}, want: "create 0"},
		{name: "nothing is deleted", rollout: Rollout{Replicas: 10, Current: set(2, 0, 0), Old: []*Set{set(1, 10, 10)}}, want: "nothing"},
		{name: "an old set does not make again what it lost", rollout: Rollout{Replicas: 10, Current: set(2, 0, 0), Old: []*Set{set(1, 10, 10, lost(2))}}, want: "r1:10>8"},
		{name: "the current one does", rollout: Rollout{Replicas: 10, Current: set(2, 0, 0), Old: []*Set{set(1, 8, 8)}}, want: "r2:0>2"},
		{name: "not before the old one has acted", rollout: Rollout{Replicas: 10, Current: set(2, 0, 0), Old: []*Set{set(1, 8, 8, unsettled)}}, want: "unsettled r1"},
		{name: "what it lost is not known before it has acted", rollout: Rollout{Replicas: 10, Current: set(2, 0, 0), Old: []*Set{set(1, 10, 10, lost(2), unsettled)}}, want: "unsettled r1"},
		{name: "up: the current one", rollout: Rollout{Replicas: 12, Current: set(2, 2, 2), Old: []*Set{set(1, 8, 8)}}, want: "r2:2>4"},
		{name: "down: the oldest first", rollout: Rollout{Replicas: 5, Current: set(3, 2, 2), Old: []*Set{set(1, 4, 4), set(2, 4, 4)}}, want: "r1:4>0 r2:4>3"},
		{name: "down: not what is needed", rollout: Rollout{Replicas: 4, Current: set(2, 4, 0), Old: []*Set{set(1, 4, 4)}}, want: "r2:4>0"},
		{name: "held: the latest scales", rollout: Rollout{Replicas: 12, Held: true, Old: []*Set{set(1, 10, 10)}}, want: "r1:10>12"},
		{name: "held: no set is made", rollout: Rollout{Replicas: 12, Held: true}, want: "nothing"},
		{name: "history", rollout: Rollout{Replicas: 10, Current: set(2, 10, 10), Old: []*Set{set(1, 0, 0)}}, want: "remove r1"},
	} {
		tt.rollout.Strategy = infrav1.OnDeleteStrategy
		t.Run(tt.name, tt.run)
	}
}

func TestFrozen_oldSetsOfOnDelete(t *testing.T) {
	g := NewWithT(t)
	current, old := set(2, 1, 1), set(1, 1, 1)
	r := Rollout{Strategy: infrav1.OnDeleteStrategy, Current: current, Old: []*Set{old}}
	g.Expect(r.Frozen(old)).To(BeTrue())
	g.Expect(r.Frozen(current)).To(BeFalse())
	r.Held = true
	g.Expect(r.Frozen(old)).To(BeFalse())
	r.Held, r.Strategy = false, infrav1.RollingUpdateStrategy
	g.Expect(r.Frozen(old)).To(BeFalse())
}
