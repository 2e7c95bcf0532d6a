package machines

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// set returns a settled set with size machines, of which some are available. The
// deployment had ten desired machines and at most eleven when it sized the set. A
// higher revision is newer.
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

// resized changes the size of a set but not its machines.
func resized(size int32) func(*Set) { return func(s *Set) { s.Replicas, s.Settled = size, false } }

func desired(desired, limit int32) func(*Set) {
	return func(s *Set) { s.Desired, s.Max = desired, limit }
}

// describe returns a short text of a plan.
func describe(p Plan) string {
	result := ""
	if p.Create {
		result += fmt.Sprintf("create %d ", p.Size)
	}
	for _, size := range p.Resize {
		result += fmt.Sprintf("%s:%d>%d ", size.Set.Name, size.Set.Replicas, size.To)
	}
	for _, removed := range p.Remove {
		result += fmt.Sprintf("remove %s ", removed.Name)
	}
	if p.Unsettled != "" {
		result += "unsettled " + p.Unsettled + " "
	}
	if result == "" {
		return "nothing"
	}
	return result[:len(result)-1]
}

// planCase is a test case of Rollout.Plan.
type planCase struct {
	name    string
	rollout Rollout
	want    string
}

func (p planCase) run(t *testing.T) {
	r := p.rollout
	r.Now = noon
	if r.Strategy == "" {
		r.Strategy = infrav1.RollingUpdateStrategy
	}
	NewWithT(t).Expect(describe(r.Plan())).To(Equal(p.want))
}

func TestPlan_rollingUpdate(t *testing.T) {
	surge1, mixed := Limits{Surge: 1}, Limits{Surge: 3, Unavailable: 2}
	for _, tt := range []planCase{
		{name: "first set gets all machines", rollout: Rollout{Replicas: 10, Limits: surge1}, want: "create 10"},
		{name: "new set gets the surge", rollout: Rollout{Replicas: 10, Limits: mixed, Old: []*Set{set(1, 10, 10)}}, want: "create 3"},
		{
			name:    "new set gets no machines if there are too many",
			rollout: Rollout{Replicas: 10, Limits: mixed, Old: []*Set{set(1, 8, 8), set(2, 5, 0)}}, want: "create 0",
		},
		{
			name:    "new set gets no machines before old set is settled",
			rollout: Rollout{Replicas: 10, Limits: mixed, Old: []*Set{set(1, 10, 10, unsettled)}}, want: "create 0 unsettled r1",
		},
		{
			name:    "unavailable machines of the current set do not count",
			rollout: Rollout{Replicas: 10, Limits: mixed, Current: set(2, 3, 0), Old: []*Set{set(1, 10, 10)}}, want: "r1:10>8",
		},
		{
			name:    "current set grows by what the old set lost",
			rollout: Rollout{Replicas: 10, Limits: mixed, Current: set(2, 3, 0), Old: []*Set{set(1, 8, 8)}}, want: "r2:3>5",
		},
		{
			name:    "machines that the old set still has count",
			rollout: Rollout{Replicas: 10, Limits: mixed, Current: set(2, 3, 3), Old: []*Set{set(1, 10, 10, resized(8))}}, want: "r1:8>5 unsettled r1",
		},
		{
			name:    "broken template removes no working machines",
			rollout: Rollout{Replicas: 10, Limits: mixed, Current: set(2, 5, 0), Old: []*Set{set(1, 8, 8)}}, want: "nothing",
		},
		{
			name:    "broken template removes no working machines after a failure",
			rollout: Rollout{Replicas: 10, Limits: mixed, Current: set(2, 5, 0), Old: []*Set{set(1, 8, 7)}}, want: "nothing",
		},
		{
			name:    "rollback removes broken machines first",
			rollout: Rollout{Replicas: 10, Limits: mixed, Current: set(1, 8, 8), Old: []*Set{set(2, 5, 0)}}, want: "r2:5>0",
		},
		{
			name:    "rollover removes broken machines first",
			rollout: Rollout{Replicas: 10, Limits: mixed, Current: set(3, 0, 0), Old: []*Set{set(1, 8, 8), set(2, 5, 0)}}, want: "r2:5>0",
		},
		{
			name:    "unavailable machines of all old sets go before spare ones",
			rollout: Rollout{Replicas: 10, Limits: Limits{Surge: 1, Unavailable: 2}, Current: set(3, 0, 0), Old: []*Set{set(1, 6, 6), set(2, 5, 4)}},
			want:    "r1:6>4 r2:5>4",
		},
		{
			name: "ready machines are not available before minReadySeconds",
			rollout: Rollout{Replicas: 3, Limits: surge1, Old: []*Set{set(1, 3, 3, desired(3, 4))}, Current: set(2, 1, 1, desired(3, 4), func(s *Set) {
				s.MinReady = time.Hour
			})},
			want: "nothing",
		},
		{
			name:    "without surge a machine is removed before one is created",
			rollout: Rollout{Replicas: 2, Limits: Limits{Unavailable: 1}, Current: set(2, 0, 0), Old: []*Set{set(1, 2, 2, desired(2, 2))}}, want: "r1:2>1",
		},
		{
			name:    "marked available machine stays until it is spare",
			rollout: Rollout{Replicas: 3, Limits: surge1, Current: set(2, 1, 1, desired(3, 4)), Old: []*Set{set(1, 3, 2, desired(3, 4), func(s *Set) { marked(&s.Machines[0]) })}},
			want:    "nothing",
		},
		{
			name:    "machines being deleted do not count",
			rollout: Rollout{Replicas: 3, Limits: surge1, Current: set(2, 1, 1, desired(3, 4)), Old: []*Set{set(1, 3, 3, desired(3, 4), func(s *Set) { deleting(&s.Machines[0]) })}},
			want:    "r1:3>2",
		},
		{
			name:    "set being deleted has no desired machines",
			rollout: Rollout{Replicas: 3, Limits: surge1, Current: set(2, 3, 3, desired(3, 4)), Old: []*Set{set(1, 3, 0, resized(0), func(s *Set) { s.Deleting, s.Settled = true, true })}},
			want:    "nothing",
		},
		{name: "no machines desired", rollout: Rollout{Current: set(1, 0, 0)}, want: "nothing"},
		{name: "current set is too large", rollout: Rollout{Replicas: 10, Limits: surge1, Current: set(1, 12, 12)}, want: "r1:12>10"},
	} {
		t.Run(tt.name, tt.run)
	}
}

func TestPlan_history(t *testing.T) {
	old := []*Set{set(1, 0, 0), set(2, 0, 0), set(3, 0, 0)}
	for _, tt := range []planCase{
		{name: "kept", rollout: Rollout{Replicas: 10, Current: set(4, 10, 10), Old: old, HistoryLimit: 3}, want: "nothing"},
		{name: "lowest revisions are removed", rollout: Rollout{Replicas: 10, Current: set(4, 10, 10), Old: old, HistoryLimit: 1}, want: "remove r1 remove r2"},
		{name: "limit zero", rollout: Rollout{Replicas: 10, Current: set(4, 10, 10), Old: old}, want: "remove r1 remove r2 remove r3"},
		{name: "incomplete rollout", rollout: Rollout{Replicas: 10, Current: set(4, 10, 9), Old: old}, want: "nothing"},
		{
			name:    "set that may not be empty",
			rollout: Rollout{Replicas: 10, Current: set(4, 10, 10), Old: []*Set{set(1, 0, 0, unsettled), set(2, 0, 0)}}, want: "remove r2 unsettled r1",
		},
		{
			name:    "set being deleted",
			rollout: Rollout{Replicas: 10, Current: set(4, 10, 10), Old: []*Set{set(1, 0, 0, func(s *Set) { s.Deleting = true }), set(2, 0, 0)}, HistoryLimit: 1}, want: "nothing",
		},
		{name: "scale only", rollout: Rollout{Replicas: 10, ScaleOnly: true, Current: set(4, 10, 10), Old: old}, want: "nothing"},
	} {
		t.Run(tt.name, tt.run)
	}
}

func TestPlan_scaling(t *testing.T) {
	mixed := Limits{Surge: 3, Unavailable: 2}
	for _, tt := range []planCase{
		{name: "single set grows", rollout: Rollout{Replicas: 15, Limits: mixed, Current: set(1, 10, 10)}, want: "r1:10>15"},
		{name: "single set shrinks", rollout: Rollout{Replicas: 4, Limits: mixed, Current: set(1, 10, 10)}, want: "r1:10>4"},
		{name: "to zero", rollout: Rollout{Replicas: 0, Current: set(1, 10, 10)}, want: "r1:10>0"},
		{name: "from zero", rollout: Rollout{Replicas: 4, Limits: mixed, Current: set(1, 0, 0, desired(0, 0))}, want: "r1:0>4"},
		{
			name:    "only the old set has machines",
			rollout: Rollout{Replicas: 15, Limits: mixed, Current: set(2, 0, 0), Old: []*Set{set(1, 10, 10)}}, want: "r1:10>15",
		},
		{
			name:    "size stays, record changes",
			rollout: Rollout{Replicas: 10, Limits: mixed, Current: set(1, 10, 10, desired(9, 12))}, want: "r1:10>10",
		},
		{
			name:    "sets grow in proportion",
			rollout: Rollout{Replicas: 15, Limits: mixed, Current: set(2, 5, 5, desired(10, 13)), Old: []*Set{set(1, 8, 8, desired(10, 13))}}, want: "r1:8>11 r2:5>7",
		},
		{
			name:    "newer of equal sets takes the rest",
			rollout: Rollout{Replicas: 11, Limits: Limits{Surge: 1}, Current: set(2, 5, 5, desired(9, 10)), Old: []*Set{set(1, 5, 5, desired(9, 10))}}, want: "r1:5>6 r2:5>6",
		},
		{
			name:    "no more than there is room",
			rollout: Rollout{Replicas: 11, Limits: Limits{Surge: 1}, Current: set(3, 3, 3, desired(10, 4)), Old: []*Set{set(1, 4, 4, desired(10, 4)), set(2, 3, 3, desired(10, 4))}},
			want:    "r1:4>6 r2:3>3 r3:3>3",
		},
		{
			name:    "sets shrink in proportion",
			rollout: Rollout{Replicas: 5, Limits: mixed, Current: set(2, 5, 5, desired(10, 13)), Old: []*Set{set(1, 8, 8, desired(10, 13))}}, want: "r1:8>5 r2:5>3",
		},
		{
			name:    "availability before proportions",
			rollout: Rollout{Replicas: 5, Limits: Limits{Surge: 1}, Current: set(2, 5, 0, desired(10, 13)), Old: []*Set{set(1, 8, 8, desired(10, 13))}}, want: "r1:8>5 r2:5>1",
		},
		{
			name:    "all sets to zero",
			rollout: Rollout{Replicas: 0, Current: set(2, 5, 5), Old: []*Set{set(1, 8, 8)}}, want: "r1:8>0 r2:5>0",
		},
		{
			name:    "no growth before sets are settled",
			rollout: Rollout{Replicas: 15, Limits: mixed, Current: set(2, 5, 5, unsettled), Old: []*Set{set(1, 8, 8)}}, want: "unsettled r2",
		},
		{
			name:    "no growth while there are too many machines",
			rollout: Rollout{Replicas: 12, Limits: mixed, Current: set(2, 3, 3), Old: []*Set{set(1, 12, 12, func(s *Set) { s.Replicas = 8 })}}, want: "nothing",
		},
		{
			name:    "current set has all machines: old sets go",
			rollout: Rollout{Replicas: 10, Limits: mixed, Current: set(2, 10, 10), Old: []*Set{set(1, 2, 2, desired(2, 2))}}, want: "r1:2>0",
		},
		{
			name:    "without a record the present size is the base",
			rollout: Rollout{Replicas: 20, Limits: Limits{Surge: 2}, Current: set(2, 5, 5, desired(10, -1)), Old: []*Set{set(1, 6, 6, desired(10, -1))}}, want: "r1:6>12 r2:5>10",
		},
		{
			name:    "a record of zero is ignored",
			rollout: Rollout{Replicas: 20, Limits: Limits{Surge: 2}, Current: set(2, 5, 5, desired(10, 0)), Old: []*Set{set(1, 6, 6, desired(10, 0))}}, want: "r1:6>12 r2:5>10",
		},
		{
			name: "sizes stay, records change although there are too many machines",
			rollout: Rollout{Replicas: 10, Limits: mixed, Current: set(2, 5, 5, desired(9, 12)), Old: []*Set{set(1, 12, 12, desired(9, 12), func(s *Set) {
				s.Replicas = 8
			})}}, want: "r1:8>8 r2:5>5",
		},
		{
			name:    "unavailable machines go before marked ones of another set",
			rollout: Rollout{Replicas: 2, Limits: Limits{}, Current: set(2, 2, 0), Old: []*Set{set(1, 2, 2, func(s *Set) { marked(&s.Machines[0]) })}}, want: "r1:2>2 r2:2>0",
		},
	} {
		t.Run(tt.name, tt.run)
	}
}

func TestPlan_empty(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Plan{Scaling: true, Unsettled: "r1"}.Empty()).To(BeTrue())
	g.Expect(Plan{Create: true}.Empty()).To(BeFalse())
	g.Expect(Plan{Resize: []SetSize{{}}}.Empty()).To(BeFalse())
	g.Expect(Plan{Remove: []*Set{{}}}.Empty()).To(BeFalse())
}

func TestPlan_scaleOnly(t *testing.T) {
	mixed := Limits{Surge: 3, Unavailable: 2}
	for _, tt := range []planCase{
		{name: "no set is created", rollout: Rollout{Replicas: 10, ScaleOnly: true, Limits: mixed}, want: "nothing"},
		{name: "nothing is rolled out", rollout: Rollout{Replicas: 10, ScaleOnly: true, Limits: mixed, Old: []*Set{set(1, 10, 10)}}, want: "nothing"},
		{name: "latest set scales", rollout: Rollout{Replicas: 12, ScaleOnly: true, Limits: mixed, Old: []*Set{set(1, 0, 0), set(2, 10, 10)}}, want: "r2:10>12"},
		{name: "latest set scales from zero", rollout: Rollout{Replicas: 2, ScaleOnly: true, Limits: mixed, Old: []*Set{set(1, 0, 0), set(2, 0, 0)}}, want: "r2:0>2"},
		{
			name:    "sets scale in proportion",
			rollout: Rollout{Replicas: 15, ScaleOnly: true, Limits: mixed, Current: set(2, 5, 5, desired(10, 13)), Old: []*Set{set(1, 8, 8, desired(10, 13))}}, want: "r1:8>11 r2:5>7",
		},
		{
			name:    "sets stay",
			rollout: Rollout{Replicas: 10, ScaleOnly: true, Limits: mixed, Current: set(2, 5, 5, desired(10, 13)), Old: []*Set{set(1, 8, 8, desired(10, 13))}}, want: "nothing",
		},
	} {
		t.Run(tt.name, tt.run)
	}
}

func TestPlan_onDelete(t *testing.T) {
	lost := func(n int) func(*Set) { return func(s *Set) { s.Machines = s.Machines[n:] } }
	for _, tt := range []planCase{
		{name: "first set", rollout: Rollout{Replicas: 10}, want: "create 10"},
		{name: "new set waits for deletions", rollout: Rollout{Replicas: 10, Old: []*Set{set(1, 10, 10)}}, want: "create 0"},
		{name: "nothing is deleted", rollout: Rollout{Replicas: 10, Current: set(2, 0, 0), Old: []*Set{set(1, 10, 10)}}, want: "nothing"},
		{name: "old set does not replace deleted machines", rollout: Rollout{Replicas: 10, Current: set(2, 0, 0), Old: []*Set{set(1, 10, 10, lost(2))}}, want: "r1:10>8"},
		{name: "current set replaces deleted machines", rollout: Rollout{Replicas: 10, Current: set(2, 0, 0), Old: []*Set{set(1, 8, 8)}}, want: "r2:0>2"},
		{name: "no growth before the old set is settled", rollout: Rollout{Replicas: 10, Current: set(2, 0, 0), Old: []*Set{set(1, 8, 8, unsettled)}}, want: "unsettled r1"},
		{name: "losses are unknown before the old set is settled", rollout: Rollout{Replicas: 10, Current: set(2, 0, 0), Old: []*Set{set(1, 10, 10, lost(2), unsettled)}}, want: "unsettled r1"},
		{name: "scaling up grows the current set", rollout: Rollout{Replicas: 12, Current: set(2, 2, 2), Old: []*Set{set(1, 8, 8)}}, want: "r2:2>4"},
		{name: "scaling down shrinks the oldest set first", rollout: Rollout{Replicas: 5, Current: set(3, 2, 2), Old: []*Set{set(1, 4, 4), set(2, 4, 4)}}, want: "r1:4>0 r2:4>3"},
		{name: "scaling down keeps available machines", rollout: Rollout{Replicas: 4, Current: set(2, 4, 0), Old: []*Set{set(1, 4, 4)}}, want: "r2:4>0"},
		{name: "scale only: latest set scales", rollout: Rollout{Replicas: 12, ScaleOnly: true, Old: []*Set{set(1, 10, 10)}}, want: "r1:10>12"},
		{name: "scale only: no set is created", rollout: Rollout{Replicas: 12, ScaleOnly: true}, want: "nothing"},
		{name: "history", rollout: Rollout{Replicas: 10, Current: set(2, 10, 10), Old: []*Set{set(1, 0, 0)}}, want: "remove r1"},
	} {
		tt.rollout.Strategy = infrav1.OnDeleteStrategy
		t.Run(tt.name, tt.run)
	}
}

func TestCreationDisabled_forOldSetsOfOnDelete(t *testing.T) {
	g := NewWithT(t)
	current, old := set(2, 1, 1), set(1, 1, 1)
	r := Rollout{Strategy: infrav1.OnDeleteStrategy, Current: current, Old: []*Set{old}}
	g.Expect(r.CreationDisabled(old)).To(BeTrue())
	g.Expect(r.CreationDisabled(current)).To(BeFalse())
	r.ScaleOnly = true
	g.Expect(r.CreationDisabled(old)).To(BeFalse())
	r.ScaleOnly, r.Strategy = false, infrav1.RollingUpdateStrategy
	g.Expect(r.CreationDisabled(old)).To(BeFalse())
}
