package machines

import (
	"cmp"
	"slices"
	"time"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// Rollout is the state of a deployment.
type Rollout struct {
	// Replicas is the desired number of machines.
	Replicas int32
	Strategy infrav1.MachineDeploymentStrategyType
	Limits   Limits
	// ScaleOnly reports whether the deployment scales but does not roll out: it is
	// paused, or its spec cannot be carried out.
	ScaleOnly bool
	// HistoryLimit is the number of old sets to keep.
	HistoryLimit int32
	// Current is the set of the current template, or nil if it does not exist.
	Current *Set
	// Old are the other sets.
	Old []*Set
	Now time.Time
}

// Plan is the next step of a deployment. It is empty if there is nothing to do. A
// step that is carried out in part, or not at all, is planned again from the
// resulting state.
type Plan struct {
	// Create reports whether to create the set of the current template, with Size
	// machines.
	Create bool
	Size   int32
	// Resize are the new sizes of sets. A set whose size stays the same only
	// records the numbers that the size was computed from.
	Resize []SetSize
	// Remove are old sets that are no longer needed.
	Remove []*Set
	// Scaling reports whether the plan scales the deployment, which may also grow
	// old sets.
	Scaling bool
	// Unsettled is the name of a set that has to observe its latest size before any
	// set grows.
	Unsettled string
}

// SetSize is the new size of a set.
type SetSize struct {
	Set *Set
	To  int32
}

// Empty reports whether there is nothing to do.
func (p Plan) Empty() bool { return !p.Create && len(p.Resize) == 0 && len(p.Remove) == 0 }

// MinAvailable returns the number of machines that have to be available.
func (r Rollout) MinAvailable() int32 { return r.Replicas - r.Limits.Unavailable }

// Max returns the maximum number of machines.
func (r Rollout) Max() int32 {
	if r.Replicas == 0 {
		return 0
	}
	return r.Replicas + r.Limits.Surge
}

// Plan returns the next step.
func (r Rollout) Plan() Plan {
	p := newPlanner(r)
	switch {
	case r.Strategy == infrav1.OnDeleteStrategy:
		return p.onDelete()
	case r.ScaleOnly, p.isScaling():
		return p.scale()
	}
	return p.roll()
}

// Complete reports whether all desired machines are available, have the current
// template, and are the only ones.
func (r Rollout) Complete() bool { return newPlanner(r).complete() }

// CreationDisabled reports whether a set must not create machines. These are the
// old sets with the strategy OnDelete: the current set replaces the machines that
// the user deletes.
func (r Rollout) CreationDisabled(set *Set) bool {
	return r.Strategy == infrav1.OnDeleteStrategy && !r.ScaleOnly && (r.Current == nil || set.UID != r.Current.UID)
}

// planner computes the sizes of sets.
type planner struct {
	Rollout
	// sets are all sets, the oldest first.
	sets []*sizing
	// old are all sets except the current one, the oldest first.
	old     []*sizing
	current *sizing
}

func newPlanner(r Rollout) *planner {
	p := &planner{Rollout: r}
	for _, s := range r.Old {
		p.old = append(p.old, newSizing(s, r.Now))
	}
	slices.SortFunc(p.old, byAge)
	p.sets = slices.Clone(p.old)
	if r.Current != nil {
		p.current = newSizing(r.Current, r.Now)
		p.sets = append(p.sets, p.current)
		slices.SortFunc(p.sets, byAge)
	}
	return p
}

// available returns the number of machines that stay available at the tentative
// sizes.
func (p *planner) available() int32 {
	var n int32
	for _, z := range p.sets {
		n += z.available()
	}
	return n
}

// size returns the sum of the tentative sizes.
func (p *planner) size() int32 {
	var n int32
	for _, z := range p.sets {
		n += z.size
	}
	return n
}

// room returns how many machines may be created within a limit. It returns zero,
// and the name of a set, until that set has observed its size: it is not known how
// many machines the set has or is about to create.
func (p *planner) room(limit int32) (int32, string) {
	for _, z := range p.sets {
		if !z.Settled {
			return 0, z.Name
		}
		limit -= z.total()
	}
	return max(limit, 0), ""
}

// withSizes adds the tentative sizes that differ from the current ones to a plan.
func (p *planner) withSizes(plan Plan) Plan {
	for _, z := range p.sets {
		if z.size != z.Replicas {
			plan.Resize = append(plan.Resize, SetSize{Set: z.Set, To: z.size})
		}
	}
	return plan
}

// roll plans a step of a rolling update. The current set grows as far as maxSurge
// allows. If it cannot grow, the old sets shrink as far as maxUnavailable allows.
func (p *planner) roll() Plan {
	room, unsettled := p.room(p.Max())
	plan := Plan{Unsettled: unsettled}
	switch {
	case p.current == nil:
		plan.Create, plan.Size = true, min(room, p.Replicas)
		return plan
	case p.current.size > p.Replicas:
		p.current.size = p.Replicas
	case p.current.size < p.Replicas && room > 0:
		p.current.size += min(room, p.Replicas-p.current.size)
	default:
		p.shrinkOld()
	}
	plan = p.withSizes(plan)
	if plan.Empty() && p.complete() {
		plan.Remove = p.surplusHistory()
	}
	return plan
}

// shrinkOld shrinks the old sets. It does not rely on machines of the current set
// that are not available yet, so a broken template does not remove working
// machines. Unavailable machines of all old sets are deleted first, then spare ones.
func (p *planner) shrinkOld() {
	budget := p.size() - p.MinAvailable() - (p.current.size - p.current.available())
	var none int32
	for _, z := range p.old {
		budget -= z.shrink(budget, &none)
	}
	spare := max(p.available()-p.MinAvailable(), 0)
	for _, z := range p.old {
		budget -= z.shrink(budget, &spare)
	}
}

// complete reports whether the rollout is complete.
func (p *planner) complete() bool {
	for _, z := range p.old {
		if z.total() > 0 {
			return false
		}
	}
	return p.current != nil && p.current.Replicas == p.Replicas &&
		p.current.present == p.Replicas && p.current.available() == p.Replicas
}

// surplusHistory returns the empty old sets above the history limit, those with
// the lowest revisions.
func (p *planner) surplusHistory() []*Set {
	kept := slices.DeleteFunc(slices.Clone(p.old), func(z *sizing) bool { return z.Deleting })
	slices.SortStableFunc(kept, func(a, b *sizing) int { return cmp.Compare(a.Revision, b.Revision) })
	var remove []*Set
	for _, z := range kept[:max(len(kept)-int(p.HistoryLimit), 0)] {
		if z.total() == 0 && z.Settled {
			remove = append(remove, z.Set)
		}
	}
	return remove
}
