package machines

import (
	"cmp"
	"math"
	"slices"
)

// isScaling reports whether the desired number changed since the sets were sized.
func (p *planner) isScaling() bool {
	return slices.ContainsFunc(p.sets, func(z *sizing) bool {
		return z.active() && z.Desired >= 0 && z.Desired != p.Replicas
	})
}

// scale plans a change of the desired number without continuing a rollout. A
// single active set takes the whole change. Several sets share it in proportion to
// their sizes, so that scaling neither advances a rollout nor reverts it.
func (p *planner) scale() Plan {
	active := slices.DeleteFunc(slices.Clone(p.sets), func(z *sizing) bool { return !z.active() })
	switch {
	case len(active) == 0:
		if latest := p.latest(); latest != nil {
			return p.resizeOnly(latest)
		}
		return Plan{}
	case len(active) == 1:
		return p.resizeOnly(active[0])
	case p.saturated():
		for _, z := range p.old {
			z.size = 0
		}
		return p.withSizes(Plan{Scaling: true})
	}
	plan := Plan{Scaling: true}
	switch change := p.Max() - p.size(); {
	case change > 0:
		room, unsettled := p.room(p.Max())
		if room < change {
			// Machines have to be deleted first. Their deletion triggers the next
			// reconcile.
			return Plan{Scaling: true, Unsettled: unsettled}
		}
		p.growInProportion(active, change)
	case change < 0:
		p.shrinkInProportion(active, -change)
	}
	for _, z := range active {
		if z.size != z.Replicas || z.Desired != p.Replicas || z.Max != p.Max() {
			plan.Resize = append(plan.Resize, SetSize{Set: z.Set, To: z.size})
		}
	}
	return plan
}

// latest returns the set to scale if no set has machines: the current one, or the
// newest old one.
func (p *planner) latest() *sizing {
	if p.current != nil {
		return p.current
	}
	for _, z := range slices.Backward(p.old) {
		if !z.Deleting {
			return z
		}
	}
	return nil
}

// resizeOnly gives a set the desired size, and leaves the others alone.
func (p *planner) resizeOnly(z *sizing) Plan {
	plan := Plan{Scaling: true}
	if p.Replicas > z.size {
		room, unsettled := p.room(p.Max())
		if room < p.Replicas-z.size {
			plan.Unsettled = unsettled
			return plan
		}
	}
	z.size = p.Replicas
	if z.size != z.Replicas || z.active() && z.Desired != p.Replicas {
		plan.Resize = []SetSize{{Set: z.Set, To: z.size}}
	}
	return plan
}

// saturated reports whether the current set has all desired machines.
func (p *planner) saturated() bool {
	return p.current != nil && p.current.Replicas == p.Replicas && p.current.Desired == p.Replicas &&
		p.current.available() == p.Replicas
}

// share returns by how much a set changes when the deployment does.
func (p *planner) share(z *sizing) int32 {
	if p.Replicas == 0 {
		return -z.Replicas
	}
	previous := z.Max
	if previous <= 0 {
		previous = p.size()
	}
	return int32(math.Round(float64(z.Replicas)*float64(p.Max())/float64(previous))) - z.Replicas
}

// growInProportion distributes n machines over sets, the largest first, of equal
// ones the newer first. The first set also takes the rest that rounding leaves.
func (p *planner) growInProportion(active []*sizing, n int32) {
	sorted := bySize(active, func(a, b *sizing) int { return byAge(b, a) })
	left := n
	shares := make([]int32, len(sorted))
	for i, z := range sorted {
		shares[i] = min(max(p.share(z), 0), left)
		left -= shares[i]
	}
	shares[0] += left
	for i, z := range sorted {
		z.size += shares[i]
	}
}

// shrinkInProportion removes n machines from sets, the largest first, of equal
// ones the older first. The first set also absorbs the rounding remainder. If a
// set's share costs availability and another set has unavailable machines, those
// are deleted instead, except for marked machines.
func (p *planner) shrinkInProportion(active []*sizing, n int32) {
	sorted := bySize(active, byAge)
	left := n
	shares := make([]int32, len(sorted))
	for i, z := range sorted {
		shares[i] = min(max(-p.share(z), 0), left)
		left -= shares[i]
	}
	shares[0] += left
	p.shrink(sorted, shares, n)
}

// shrink removes n machines from sets in this order, each time in the order of the
// sets: the share of each set and then machines of any set, as far as availability
// allows; marked machines, and those that availability then allows; and finally
// any machine.
func (p *planner) shrink(sets []*sizing, shares []int32, n int32) {
	spare := max(p.available()-p.MinAvailable(), 0)
	for i, z := range sets {
		n -= z.shrink(min(shares[i], n), &spare)
	}
	for _, z := range sets {
		n -= z.shrink(n, &spare)
	}
	for _, z := range sets {
		n -= z.shrinkMarked(n)
		n -= z.shrink(n, &spare)
	}
	unlimited := int32(math.MaxInt32)
	for _, z := range sets {
		n -= z.shrink(n, &unlimited)
	}
}

// bySize returns sets by size, the largest first. Sets of equal size are ordered
// by tie.
func bySize(sets []*sizing, tie func(a, b *sizing) int) []*sizing {
	return slices.SortedFunc(slices.Values(sets), func(a, b *sizing) int {
		return cmp.Or(cmp.Compare(b.Replicas, a.Replicas), tie(a, b))
	})
}

// onDelete plans the strategy OnDelete. Old sets shrink to the machines they
// still have, and the current set replaces those that the user deleted. If fewer
// machines are desired, the oldest sets shrink first.
func (p *planner) onDelete() Plan {
	room, unsettled := p.room(p.Replicas)
	plan := Plan{Unsettled: unsettled}
	if p.current == nil && !p.ScaleOnly {
		plan.Create, plan.Size = true, min(room, p.Replicas)
	}
	if !p.ScaleOnly {
		for _, z := range p.old {
			if z.Settled {
				z.size = min(z.size, z.present)
			}
		}
	}
	growing := p.latest()
	switch surplus := p.size() - p.Replicas; {
	case surplus > 0:
		order := slices.Clone(p.old)
		if p.current != nil {
			order = append(order, p.current)
		}
		shares := make([]int32, len(order))
		for i, left := 0, surplus; i < len(order); i++ {
			shares[i] = min(order[i].size, left)
			left -= shares[i]
		}
		p.shrink(order, shares, surplus)
	case surplus < 0 && growing != nil && room > 0 && (p.current != nil || p.ScaleOnly):
		growing.size += min(room, -surplus)
	}
	plan.Scaling = p.ScaleOnly
	plan = p.withSizes(plan)
	if plan.Empty() && !p.ScaleOnly && p.complete() {
		plan.Remove = p.surplusHistory()
	}
	return plan
}
