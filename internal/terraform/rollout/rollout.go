// Package rollout decides which workspaces of a template get its current module next. It is
// pure.
package rollout

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// pollInterval is how often the gate of a stage is checked besides the events of its
// workspaces: those of their Clusters are not watched.
const pollInterval = 30 * time.Second

// Workspace is a workspace of a template.
type Workspace struct {
	Key client.ObjectKey
	// Labels are its labels and those of its Cluster.
	Labels labels.Set
	// Revision is the revision of the template that it uses, or empty.
	Revision string
	// IsNew is set if it has no resources yet. It gets the current module at once.
	IsNew bool
	// Waits is why its stage is not complete with this workspace, empty if it is ready with
	// the current module. IsFailed is set if it will not become ready by itself.
	Waits    string
	IsFailed bool
}

// Progress is how far a rollout is.
type Progress struct {
	Status infrav1.RolloutStatus
	// Assign are the workspaces that get the current module now.
	Assign []client.ObjectKey
	// Fault is why the rollout does not advance, nil if all workspaces use the current module.
	Fault error
}

// rollout is the state of one decision.
type rollout struct {
	former     infrav1.RolloutStatus
	revision   string
	workspaces []Workspace
	now        time.Time
	// isFirst is set for the first revision that the template has with stages.
	isFirst bool
	Progress
}

// Next returns the next step of the rollout of a revision.
func Next(spec *infrav1.TemplateRollout, revision string, former *infrav1.RolloutStatus, workspaces []Workspace, now time.Time) Progress {
	r := &rollout{former: ptr.Deref(former, infrav1.RolloutStatus{}), revision: revision, workspaces: slices.Clone(workspaces), now: now}
	r.isFirst = r.former.Revision == ""
	if r.former.Revision != revision {
		r.former = infrav1.RolloutStatus{Previous: lastComplete(r.former)}
	}
	r.Status = infrav1.RolloutStatus{Revision: revision, Previous: r.former.Previous, Stage: r.former.Stage, Workspaces: int32(len(workspaces))}
	slices.SortFunc(r.workspaces, r.compare)
	r.assignNew()
	for _, w := range r.workspaces {
		if r.isUpdated(w) {
			r.Status.Updated++
			if w.Waits == "" {
				r.Status.Ready++
			}
		}
	}
	r.Fault = r.advance(spec)
	r.Status.Updated += int32(len(r.Assign))
	return r.Progress
}

// isComplete reports whether all workspaces have changed.
func isComplete(s infrav1.RolloutStatus) bool { return s.Stage == "" && !s.CompleteSince.IsZero() }

// lastComplete returns the last revision that reached all workspaces, ready or not: the way
// back from the next one leads there.
func lastComplete(former infrav1.RolloutStatus) string {
	if former.Updated == former.Workspaces {
		return former.Revision
	}
	return former.Previous
}

// goesBack reports whether the revision is the one that all workspaces had before stages
// began to change them.
func (r *rollout) goesBack() bool { return r.Status.Previous == r.revision }

// compare orders the workspaces: those with the current module, then those with one whose
// rollout was not completed. The order of the others differs between revisions, so that not
// always the same ones take the risk.
func (r *rollout) compare(a, b Workspace) int {
	rank := func(w Workspace) int {
		switch w.Revision {
		case r.revision:
			return 0
		case r.Status.Previous:
			return 2
		default:
			return 1
		}
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(r.position(a), r.position(b)), cmp.Compare(a.Key.String(), b.Key.String()))
}

func (r *rollout) isUpdated(w Workspace) bool { return w.Revision == r.revision }

func (r *rollout) position(w Workspace) uint32 {
	h := fnv.New32a()
	h.Write([]byte(r.revision + "/" + w.Key.String()))
	return h.Sum32()
}

// assignNew gives the current module to workspaces that have no resources, and to those that
// have no revision of this template: what they use is not known.
func (r *rollout) assignNew() {
	for _, w := range r.workspaces {
		if !r.isUpdated(w) && (w.IsNew || w.Revision == "") {
			r.Assign = append(r.Assign, w.Key)
		}
	}
}

// advance goes through the stages up to the first one that is not complete.
func (r *rollout) advance(spec *infrav1.TemplateRollout) error {
	waits := slices.ContainsFunc(r.workspaces, func(w Workspace) bool { return !r.isUpdated(w) && !slices.Contains(r.Assign, w.Key) })
	if !waits && (isComplete(r.former) || r.isFirst) {
		r.complete()
		return nil
	}
	stages := append(slices.Clone(spec.Stages), infrav1.RolloutStage{Name: infrav1.RemainingStage})
	if r.goesBack() {
		// What was not well before the stages began must not keep the others from going back.
		stages = stages[len(spec.Stages):]
	} else if i := slices.IndexFunc(r.workspaces, func(w Workspace) bool { return r.isUpdated(w) && !w.IsNew && w.IsFailed }); i >= 0 {
		return fault.Stall(infrav1.RolloutFailedReason, "Stage %s fails with the current module, and no other workspace gets it: workspace %s: %s. Correct the module, or go back with captctl rollout undo",
			cmp.Or(r.former.Stage, stages[0].Name), r.workspaces[i].Key, r.workspaces[i].Waits)
	}
	reached := slices.IndexFunc(stages, func(s infrav1.RolloutStage) bool { return s.Name == r.former.Stage })
	for i, stage := range stages {
		members, err := r.members(stage)
		if err != nil {
			return err
		}
		if done, err := r.stage(spec, stage, members, i < reached); !done {
			return err
		}
	}
	r.complete()
	return nil
}

// complete ends the rollout. What happens to a workspace from now on is no matter of it.
func (r *rollout) complete() {
	r.Status.Stage, r.Status.CompleteSince = "", metav1.NewTime(r.now)
	if isComplete(r.former) {
		r.Status.CompleteSince = r.former.CompleteSince
	}
}

// members returns the workspaces that use the current module at the end of a stage.
func (r *rollout) members(stage infrav1.RolloutStage) ([]Workspace, error) {
	selector := labels.Everything()
	if stage.Selector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(stage.Selector); err != nil {
			return nil, fault.Stall(infrav1.RolloutFailedReason, "The selector of stage %s is not valid: %s", stage.Name, err)
		}
	}
	var members []Workspace
	for _, w := range r.workspaces {
		if selector.Matches(w.Labels) {
			members = append(members, w)
		}
	}
	if stage.Workspaces == nil {
		return members, nil
	}
	limit, err := intstr.GetScaledValueFromIntOrPercent(stage.Workspaces, len(members), true)
	if err != nil {
		return nil, fault.Stall(infrav1.RolloutFailedReason, "workspaces of stage %s is not valid: %s", stage.Name, err)
	}
	return members[:min(limit, len(members))], nil
}

// stage changes the members of a stage, and reports whether the next one may begin. A stage
// that has passed does not soak again.
func (r *rollout) stage(spec *infrav1.TemplateRollout, stage infrav1.RolloutStage, members []Workspace, passed bool) (done bool, err error) {
	var missing []client.ObjectKey
	for _, w := range members {
		if !r.isUpdated(w) && !slices.Contains(r.Assign, w.Key) {
			missing = append(missing, w.Key)
		}
	}
	if len(missing) > 0 && (ptr.Deref(spec.Paused, false) || ptr.Deref(stage.Paused, false)) {
		return false, fault.Wait(infrav1.RolloutPausedReason, "Stage %s is paused. %d of %d workspaces use the current module", stage.Name, r.Status.Updated, r.Status.Workspaces)
	}
	r.Assign = append(r.Assign, missing...)
	passed = len(members) == 0 || passed && len(missing) == 0
	if !passed {
		r.Status.Stage, r.Status.CompleteSince = stage.Name, metav1.Time{}
	}
	if waiting := slices.DeleteFunc(slices.Clone(members), func(w Workspace) bool { return w.IsNew || r.isUpdated(w) && w.Waits == "" }); len(waiting) > 0 {
		return false, fault.WaitFor(pollInterval, infrav1.RollingOutReason, "Stage %s: %d of %d workspaces are ready with the current module; workspace %s: %s",
			stage.Name, len(members)-len(waiting), len(members), waiting[0].Key, cmp.Or(waiting[0].Waits, "it changes now"))
	}
	if passed || stage.Soak == nil {
		return true, nil
	}
	r.Status.CompleteSince = metav1.NewTime(r.now)
	if r.former.Stage == stage.Name && !r.former.CompleteSince.IsZero() {
		r.Status.CompleteSince = r.former.CompleteSince
	}
	if end := r.Status.CompleteSince.Add(stage.Soak.Duration); end.After(r.now) {
		return false, fault.WaitFor(min(end.Sub(r.now), pollInterval), infrav1.RolloutSoakingReason, "Stage %s is complete. The next one begins at %s", stage.Name, end.UTC().Format(time.RFC3339))
	}
	return true, nil
}
