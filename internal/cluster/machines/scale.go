package machines

import (
	"cmp"
	"math"
	"slices"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// isScaling tells whether the wanted number changed since the sets were sized.
func (p *planner) isScaling() bool {
	return slices.ContainsFunc(p.sets, func(w *weighed) bool {
		return w.active() && w.Desired >= 0 && w.Desired != p.Replicas
	})
}

// scale follows the wanted number without going on with a rollout. One set
// takes all of a change; several share it in proportion to their sizes, so that
// scaling neither hastens a rollout nor turns it back.
func (p *planner) scale() Plan {
	active := slices.DeleteFunc(slices.Clone(p.sets), func(w *weighed) bool { return !w.active() })
	switch {
	case len(active) == 0:
		if latest := p.latest(); latest != nil {
			return p.resizeOnly(latest)
		}
		return Plan{}
	case len(active) == 1:
		return p.resizeOnly(active[0])
	case p.saturated():
		for _, w := range p.old {
			w.size = 0
		}
		return p.resized(Plan{Scaling: true})
	}
	plan := Plan{Scaling: true}
	switch change := p.Max() - p.wanted(); {
	case change > 0:
		room, unsettled := p.room(p.Max())
		if room < change {
			// What has to go first is on its way, and brings us back.
			return Plan{Scaling: true, Unsettled: unsettled}
		}
		p.growInProportion(active, change)
	case change < 0:
		p.shrinkInProportion(active, -change)
	}
	for _, w := range active {
		if w.size != w.Replicas || w.Desired != p.Replicas || w.Max != p.Max() {
			plan.Resize = append(plan.Resize, SetSize{Set: w.Set, To: w.size})
		}
	}
	return plan
}

// latest is the set that stands for the deployment when none has machines.
func (p *planner) latest() *weighed {
	if p.current != nil {
		return p.current
	}
	for _, w := range slices.Backward(p.old) {
		if !w.Deleting {
			return w
		}
	}
	return nil
}

// resizeOnly gives the only set that matters the wanted size.
func (p *planner) resizeOnly(w *weighed) Plan {
	plan := Plan{Scaling: true}
	if p.Replicas > w.size {
		room, unsettled := p.room(p.Max())
		if room < p.Replicas-w.size {
			plan.Unsettled = unsettled
			return plan
		}
	}
	w.size = p.Replicas
	if w.size != w.Replicas || w.active() && w.Desired != p.Replicas {
		plan.Resize = []SetSize{{Set: w.Set, To: w.size}}
	}
	return plan
}

// saturated tells whether the current set has everything that is wanted.
func (p *planner) saturated() bool {
	return p.current != nil && p.current.Replicas == p.Replicas && p.current.Desired == p.Replicas &&
		p.current.available() == p.Replicas
}

// fraction is by how much a set changes when the deployment does.
func (p *planner) fraction(w *weighed) int32 {
	if p.Replicas == 0 {
		return -w.Replicas
	}
	before := w.Max
	if before <= 0 {
		before = p.wanted()
	}
	return int32(math.Round(float64(w.Replicas)*float64(p.Max())/float64(before))) - w.Replicas
}

// growInProportion shares n more machines between sets. The largest goes first,
// of equal ones the newer, and takes what rounding left.
func (p *planner) growInProportion(active []*weighed, n int32) {
	sorted := bySize(active, func(a, b *weighed) int { return byAge(b, a) })
	left := n
	shares := make([]int32, len(sorted))
	for i, w := range sorted {
		shares[i] = min(max(p.fraction(w), 0), left)
		left -= shares[i]
	}
	shares[0] += left
	for i, w := range sorted {
		w.size += shares[i]
	}
}

// shrinkInProportion takes n machines from sets. The largest goes first, of
// equal ones the older, and gives what rounding left. Where a set's share would
// cost availability and another set has machines that are not available, those
// go instead; only what a person marked goes nevertheless.
func (p *planner) shrinkInProportion(active []*weighed, n int32) {
	sorted := bySize(active, byAge)
	left := n
	shares := make([]int32, len(sorted))
	for i, w := range sorted {
		shares[i] = min(max(-p.fraction(w), 0), left)
		left -= shares[i]
	}
	shares[0] += left
	p.shrink(sorted, shares, n)
}

// shrink takes n machines from sets: as far as possible the share of each, then
// what the others can give, in the order of the sets, without taking what is
// needed; and if that is not enough, what a person marked, with what can go
// behind it, and then whatever there is.
func (p *planner) shrink(sets []*weighed, shares []int32, n int32) {
	spare := max(p.available()-p.MinAvailable(), 0)
	for i, w := range sets {
		n -= w.take(min(shares[i], n), &spare)
	}
	for _, w := range sets {
		n -= w.take(n, &spare)
	}
	for _, w := range sets {
		n -= w.takeMarked(n)
		n -= w.take(n, &spare)
	}
	everything := int32(math.MaxInt32)
	for _, w := range sets {
		n -= w.take(n, &everything)
	}
}

func bySize(sets []*weighed, tie func(a, b *weighed) int) []*weighed {
	return slices.SortedFunc(slices.Values(sets), func(a, b *weighed) int {
		return cmp.Or(cmp.Compare(b.Replicas, a.Replicas), tie(a, b))
	})
}

// onDelete replaces what somebody deleted: an old set does not make again what
// it lost, and the current set makes it instead. Where fewer machines are wanted
// the oldest sets give first.
func (p *planner) onDelete() Plan {
	room, unsettled := p.room(p.Replicas)
	plan := Plan{Unsettled: unsettled}
	if p.current == nil && !p.Held {
		plan.Create, plan.Size = true, min(room, p.Replicas)
	}
	if !p.Held {
		for _, w := range p.old {
			if w.Settled {
				w.size = min(w.size, w.present)
			}
		}
	}
	grows := p.latest()
	switch excess := p.wanted() - p.Replicas; {
	case excess > 0:
		order := slices.Clone(p.old)
		if p.current != nil {
			order = append(order, p.current)
		}
		shares := make([]int32, len(order))
		for i, left := 0, excess; i < len(order); i++ {
			shares[i] = min(order[i].size, left)
			left -= shares[i]
		}
		p.shrink(order, shares, excess)
	case excess < 0 && grows != nil && room > 0 && (p.current != nil || p.Held):
		grows.size += min(room, -excess)
	}
	plan.Scaling = p.Held
	plan = p.resized(plan)
	if plan.Empty() && !p.Held && p.complete() {
		plan.Remove = p.excess()
	}
	return plan
}

// Frozen tells whether a set may not make machines: an old set of a deployment
// whose machines are replaced by whoever deletes them.
func (r Rollout) Frozen(set *Set) bool {
	return r.Strategy == infrav1.OnDeleteStrategy && !r.Held && (r.Current == nil || set.UID != r.Current.UID)
}
