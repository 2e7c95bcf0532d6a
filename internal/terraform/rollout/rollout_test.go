package rollout_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/rollout"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// fleet are workspaces that have completed the revision good.
type fleet struct {
	*WithT
	spec       infrav1.TemplateRollout
	status     *infrav1.RolloutStatus
	workspaces []rollout.Workspace
	revision   string
	now        time.Time
	fault      error
}

func newFleet(t *testing.T, n int, stages ...infrav1.RolloutStage) *fleet {
	t.Helper()
	f := &fleet{WithT: NewWithT(t), spec: infrav1.TemplateRollout{Stages: stages}, revision: "good", now: now}
	for i := range n {
		w := rollout.Workspace{Key: client.ObjectKey{Namespace: "default", Name: fmt.Sprintf("w%d", i)}, Labels: labels.Set{}}
		if i < 2 {
			w.Labels["wave"] = "canary"
		}
		f.workspaces = append(f.workspaces, w)
	}
	f.next()
	f.Expect(f.fault).NotTo(HaveOccurred(), "the first revision is no change")
	f.Expect(f.with("good")).To(HaveLen(n))
	return f
}

// next does what the controller does: it assigns revisions, and returns how many.
func (f *fleet) next() int {
	p := rollout.Next(&f.spec, f.revision, f.status, f.workspaces, f.now)
	f.status, f.fault = &p.Status, p.Fault
	for _, key := range p.Assign {
		w := f.find(key.Name)
		w.Revision, w.Waits, w.IsFailed = f.revision, "running", false
	}
	f.Expect(int(p.Status.Updated)).To(Equal(len(f.with(f.revision))))
	return len(p.Assign)
}

func (f *fleet) find(name string) *rollout.Workspace {
	for i := range f.workspaces {
		if f.workspaces[i].Key.Name == name {
			return &f.workspaces[i]
		}
	}
	return nil
}

func (f *fleet) with(revision string) (names []string) {
	for _, w := range f.workspaces {
		if w.Revision == revision {
			names = append(names, w.Key.Name)
		}
	}
	return names
}

// ready ends the runs of all workspaces.
func (f *fleet) ready() {
	for i := range f.workspaces {
		f.workspaces[i].Waits, f.workspaces[i].IsFailed, f.workspaces[i].IsNew = "", false, false
	}
}

func (f *fleet) reason() string {
	if waiting, ok := fault.AsWaiting(f.fault); ok {
		return waiting.Reason
	}
	if stalled, ok := fault.AsStalled(f.fault); ok {
		return stalled.Reason
	}
	return ""
}

func canary() infrav1.RolloutStage {
	return infrav1.RolloutStage{Name: "canary", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"wave": "canary"}}, Soak: &metav1.Duration{Duration: time.Hour}}
}

func share(percent string) infrav1.RolloutStage {
	n := intstr.FromString(percent)
	return infrav1.RolloutStage{Name: "share", Workspaces: &n}
}

func TestNext_changesOneStageAfterTheOther(t *testing.T) {
	f := newFleet(t, 50, canary(), share("20%"))
	f.revision = "new"

	f.Expect(f.next()).To(Equal(2))
	f.Expect(f.with("new")).To(ConsistOf("w0", "w1"))
	f.Expect(f.reason()).To(Equal(infrav1.RollingOutReason))
	f.Expect(f.next()).To(BeZero(), "their runs have not ended")

	f.ready()
	f.Expect(f.next()).To(BeZero())
	f.Expect(f.reason()).To(Equal(infrav1.RolloutSoakingReason))
	f.find("w1").Waits = "drift"
	f.Expect(f.next()).To(BeZero())
	f.Expect(f.reason()).To(Equal(infrav1.RollingOutReason), "a stage must stay ready")
	f.ready()
	f.next()
	f.now = f.now.Add(time.Hour)

	f.Expect(f.next()).To(Equal(8), "20 % of 50 are 10, of which 2 have changed")
	f.Expect(f.status.Stage).To(Equal("share"))
	f.ready()
	f.Expect(f.next()).To(Equal(40))
	f.Expect(f.fault).To(HaveOccurred())
	f.ready()
	f.next()
	f.Expect(f.fault).NotTo(HaveOccurred())
	f.Expect(f.status.Previous).To(Equal("good"))

	f.find("w7").IsFailed, f.find("w7").Waits = true, "broken later"
	f.next()
	f.Expect(f.fault).NotTo(HaveOccurred(), "the rollout is complete")
}

func TestNext_stopsAtAFailure(t *testing.T) {
	f := newFleet(t, 10, share("20%"))
	f.revision = "bad"
	f.Expect(f.next()).To(Equal(2))
	failed := f.with("bad")
	f.ready()
	f.find(failed[1]).IsFailed, f.find(failed[1]).Waits = true, "error: no such type"

	f.Expect(f.next()).To(BeZero())
	f.Expect(f.reason()).To(Equal(infrav1.RolloutFailedReason))
	f.Expect(f.fault).To(MatchError(And(ContainSubstring("Stage share"), ContainSubstring(failed[1]), ContainSubstring("no such type"))))

	f.Run("the correction reaches those that failed first", func(f *fleet) {
		f.revision = "corrected"
		f.Expect(f.next()).To(Equal(2))
		f.Expect(f.with("corrected")).To(ConsistOf(failed))
		f.Expect(f.status.Previous).To(Equal("good"), "not the revision that failed")
	})
	f.Run("the former module returns at once", func(f *fleet) {
		f.revision = "good"
		f.Expect(f.next()).To(Equal(2))
		f.Expect(f.with("bad")).To(BeEmpty())
	})
}

// Run runs a function with a copy of the fleet.
func (f *fleet) Run(_ string, test func(f *fleet)) {
	c := *f
	c.workspaces = append([]rollout.Workspace{}, f.workspaces...)
	test(&c)
}

func TestNext_waitsWhilePaused(t *testing.T) {
	for name, pause := range map[string]func(*infrav1.TemplateRollout){
		"the rollout": func(s *infrav1.TemplateRollout) { s.Paused = new(true) },
		"the stage":   func(s *infrav1.TemplateRollout) { s.Stages[0].Paused = new(true) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 4, share("50%"))
			pause(&f.spec)
			f.revision = "new"
			f.Expect(f.next()).To(BeZero())
			f.Expect(f.reason()).To(Equal(infrav1.RolloutPausedReason))

			f.workspaces = append(f.workspaces, rollout.Workspace{Key: client.ObjectKey{Name: "created"}, IsNew: true})
			f.Expect(f.next()).To(Equal(1), "a new workspace has nothing to lose")
		})
	}
}

func TestNext_doesNotWaitForNewWorkspaces(t *testing.T) {
	f := newFleet(t, 4, share("50%"))
	f.workspaces = append(f.workspaces, rollout.Workspace{Key: client.ObjectKey{Name: "created"}, IsNew: true, Waits: "creating the cluster", IsFailed: true})
	f.revision = "new"
	f.next()
	for range 3 {
		f.ready()
		w := f.find("created")
		w.IsNew, w.IsFailed, w.Waits = true, true, "creating the cluster"
		f.next()
	}
	f.Expect(f.with("new")).To(HaveLen(5))
	f.Expect(f.fault).NotTo(HaveOccurred())
}

func TestNext_continuesWithoutItsStatus(t *testing.T) {
	f := newFleet(t, 10, share("20%"))
	f.revision = "new"
	f.next()
	f.ready()
	f.status = nil // A move does not keep it.

	f.Expect(f.next()).To(Equal(8), "the first stage is complete")
	f.status = nil
	f.Expect(f.next()).To(BeZero())
}

func TestNext_gatesTheWorkspacesThatNoStageSelects(t *testing.T) {
	f := newFleet(t, 4, canary())
	f.revision = "new"
	f.next()
	f.ready()
	f.next()
	f.now = f.now.Add(time.Hour)
	f.Expect(f.next()).To(Equal(2))

	f.Expect(f.next()).To(BeZero())
	f.Expect(f.reason()).To(Equal(infrav1.RollingOutReason), "their runs have not ended")
	f.find("w3").IsFailed, f.find("w3").Waits = true, "error"
	f.next()
	f.Expect(f.reason()).To(Equal(infrav1.RolloutFailedReason))
	f.ready()
	f.next()
	f.Expect(f.fault).NotTo(HaveOccurred())
}

// Each stage soaks, whatever happens to the manager and to the stages.
func TestNext_skipsNoSoak(t *testing.T) {
	for name, tt := range map[string]struct {
		// happens while the workspaces of the stages share and last have the module.
		happens func(f *fleet, before *infrav1.RolloutStatus)
		// stages are those that soak again.
		stages []string
	}{
		"the manager ends before it writes the status": {
			happens: func(f *fleet, before *infrav1.RolloutStatus) { f.status = before },
			stages:  []string{"share"},
		},
		"a workspace of an earlier stage is not ready for a while": {
			happens: func(f *fleet, _ *infrav1.RolloutStatus) {
				f.find("w0").Waits = "drift"
				f.next()
				f.next()
			},
			stages: []string{"share"},
		},
		"the stage is renamed": {
			happens: func(f *fleet, _ *infrav1.RolloutStatus) { f.spec.Stages[1].Name = "renamed" },
			stages:  []string{"canary", "renamed"},
		},
		"the status is lost": {
			happens: func(f *fleet, _ *infrav1.RolloutStatus) { f.status = nil },
			stages:  []string{"canary", "share"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			soaking := share("50%")
			soaking.Soak = &metav1.Duration{Duration: time.Hour}
			f := newFleet(t, 10, canary(), soaking)
			f.revision = "new"
			f.next()
			f.ready()
			f.next()
			f.now = f.now.Add(time.Hour)
			before := f.status
			f.Expect(f.next()).To(Equal(3))

			tt.happens(f, before)
			f.ready()
			for _, stage := range tt.stages {
				f.Expect(f.next()).To(BeZero())
				f.Expect(f.status.Stage).To(Equal(stage))
				f.Expect(f.reason()).To(Equal(infrav1.RolloutSoakingReason))
				f.now = f.now.Add(time.Hour)
			}
			f.Expect(f.next()).To(Equal(5))
		})
	}
}

// Clusters are not watched: one that is not available for a while must not go unnoticed.
func TestNext_observesAStageWhileItSoaks(t *testing.T) {
	f := newFleet(t, 4, canary())
	f.revision = "new"
	f.next()
	f.ready()
	f.next()
	waiting, ok := fault.AsWaiting(f.fault)
	f.Expect(ok).To(BeTrue())
	f.Expect(waiting.RetryAfter).To(And(BeNumerically(">", 0), BeNumerically("<=", time.Minute)))
}

func TestNext_doesNotSoakAStageWithoutWorkspaces(t *testing.T) {
	f := newFleet(t, 4, canary())
	f.spec.Stages[0].Selector.MatchLabels = map[string]string{"wave": "none"}
	f.revision = "new"
	f.Expect(f.next()).To(Equal(4))
}

// A workspace that was broken before must not keep those with a bad module from going back.
func TestNext_goesBackWhateverElseIsBroken(t *testing.T) {
	f := newFleet(t, 10, canary(), share("50%"))
	f.find("w9").IsFailed, f.find("w9").Waits = true, "credentials have expired"
	f.revision = "bad"
	f.next()
	f.find("w0").IsFailed, f.find("w0").Waits = true, "error"
	f.next()
	f.Expect(f.reason()).To(Equal(infrav1.RolloutFailedReason))

	f.revision = "good"
	f.spec.Paused = new(true)
	f.Expect(f.next()).To(BeZero())
	f.spec.Paused = nil
	f.find("w0").Revision = "good" // The manager ended after the first assignment.
	f.Expect(f.next()).To(Equal(1))
	f.Expect(f.with("good")).To(HaveLen(10))
}

// One broken workspace of many must not make the way back lead past the last module.
func TestNext_goesBackToTheModuleThatReachedAll(t *testing.T) {
	f := newFleet(t, 10, canary())
	f.revision = "v2"
	f.next()
	f.ready()
	f.next()
	f.now = f.now.Add(time.Hour)
	f.Expect(f.next()).To(Equal(8))
	f.find("w9").IsFailed, f.find("w9").Waits = true, "credentials have expired"
	f.next()
	f.Expect(f.reason()).To(Equal(infrav1.RolloutFailedReason))
	f.Expect(f.status.Previous).To(Equal("good"))

	f.revision = "v3"
	f.Expect(f.next()).To(Equal(2))
	f.Expect(f.status.Previous).To(Equal("v2"))
	f.revision = "v2"
	f.Expect(f.next()).To(Equal(2), "the others have it")
}
