package machines

import (
	"cmp"
	"slices"
	"time"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// Rollout is the state of a deployment.
type Rollout struct {
	// Replicas is how many machines are wanted.
	Replicas int32
	Strategy infrav1.MachineDeploymentStrategyType
	Limits   Limits
	// Held rollouts only scale: the deployment is paused, or asks for something
	// that cannot be done.
	Held bool
	// History is how many old sets are kept.
	History int32
	// Current is the set of the present template, or nil when there is none yet.
	Current *Set
	// Old are the other sets.
	Old []*Set
	Now time.Time
}

// Plan is what a deployment does next. The plan of a state in which nothing is
// to be done is empty. A step that is not done, or done in part, is planned again
// from what came of it.
type Plan struct {
	// Create asks for the set of the present template, with Size machines.
	Create bool
	Size   int32
	// Resize gives sets a new size. A size that stays asks to remember what it
	// was taken from.
	Resize []SetSize
	// Remove are old sets that are not needed any more.
	Remove []*Set
	// Scaling is true when the plan follows the wanted number, and so may make
	// old sets larger.
	Scaling bool
	// Unsettled is a set that has to act on its latest size before anything
	// grows.
	Unsettled string
}

// SetSize is the new size of a set.
type SetSize struct {
	Set *Set
	To  int32
}

// Empty tells whether there is nothing to do.
func (p Plan) Empty() bool { return !p.Create && len(p.Resize) == 0 && len(p.Remove) == 0 }

// MinAvailable is how many machines have to be available.
func (r Rollout) MinAvailable() int32 { return r.Replicas - r.Limits.Unavailable }

// Max is how many machines there may be.
func (r Rollout) Max() int32 {
	if r.Replicas == 0 {
		return 0
	}
	return r.Replicas + r.Limits.Surge
}

// Plan decides what to do next.
func (r Rollout) Plan() Plan {
	p := newPlanner(r)
	switch {
	case r.Strategy == infrav1.OnDeleteStrategy:
		return p.onDelete()
	case r.Held:
		return p.scale()
	case p.isScaling():
		return p.scale()
	}
	return p.roll()
}

// Complete tells whether every wanted machine is available and of the present
// template, and there is no other.
func (r Rollout) Complete() bool { return newPlanner(r).complete() }

// planner thinks about the sizes of sets.
type planner struct {
	Rollout
	// sets are all sets, the oldest first.
	sets []*weighed
	// old are all sets but the current one.
	old     []*weighed
	current *weighed
}

func newPlanner(r Rollout) *planner {
	p := &planner{Rollout: r}
	for _, s := range r.Old {
		p.old = append(p.old, weigh(s, r.Now))
	}
	slices.SortFunc(p.old, byAge)
	p.sets = slices.Clone(p.old)
	if r.Current != nil {
		p.current = weigh(r.Current, r.Now)
		p.sets = append(p.sets, p.current)
		slices.SortFunc(p.sets, byAge)
	}
	return p
}

// available is how many machines stay available at the sizes thought about.
func (p *planner) available() int32 {
	var n int32
	for _, w := range p.sets {
		n += w.available()
	}
	return n
}

// wanted is the sum of the sizes thought about.
func (p *planner) wanted() int32 {
	var n int32
	for _, w := range p.sets {
		n += w.size
	}
	return n
}

// room is how many machines may be made within a limit. There is none until
// every set has acted on its size: what a set still has, or may be making, is
// not known before. The second result names a set that is waited for.
func (p *planner) room(limit int32) (int32, string) {
	for _, w := range p.sets {
		if !w.Settled {
			return 0, w.Name
		}
		limit -= w.total()
	}
	return max(limit, 0), ""
}

// resized is the plan that makes the sizes thought about real.
func (p *planner) resized(plan Plan) Plan {
	for _, w := range p.sets {
		if w.size != w.Replicas {
			plan.Resize = append(plan.Resize, SetSize{Set: w.Set, To: w.size})
		}
	}
	return plan
}

// roll takes one step of a rolling update: the current set grows as far as
// maxSurge lets it, else the old ones shrink as far as maxUnavailable lets them.
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
	plan = p.resized(plan)
	if plan.Empty() && p.complete() {
		plan.Remove = p.excess()
	}
	return plan
}

// shrinkOld makes old sets smaller. Machines of the current set that are not
// available yet are not counted on, so a template that does not work takes
// nothing from the machines that do. What is unavailable goes first, from every
// old set; then what is spare.
func (p *planner) shrinkOld() {
	budget := p.wanted() - p.MinAvailable() - (p.current.size - p.current.available())
	var nothing int32
	for _, w := range p.old {
		budget -= w.take(budget, &nothing)
	}
	spare := max(p.available()-p.MinAvailable(), 0)
	for _, w := range p.old {
		budget -= w.take(budget, &spare)
	}
}

// complete tells whether the rollout has come to its end.
func (p *planner) complete() bool {
	for _, w := range p.old {
		if w.total() > 0 {
			return false
		}
	}
	return p.current != nil && p.current.Replicas == p.Replicas &&
		p.current.present == p.Replicas && p.current.available() == p.Replicas
}

// excess are the old sets, empty and of the lowest revisions, that are more
// than the history keeps.
func (p *planner) excess() []*Set {
	kept := slices.DeleteFunc(slices.Clone(p.old), func(w *weighed) bool { return w.Deleting })
	slices.SortStableFunc(kept, func(a, b *weighed) int { return cmp.Compare(a.Revision, b.Revision) })
	var remove []*Set
	for _, w := range kept[:max(len(kept)-int(p.History), 0)] {
		if w.total() == 0 && w.Settled {
			remove = append(remove, w.Set)
		}
	}
	return remove
}
