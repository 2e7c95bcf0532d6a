package web

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/describe"
	"github.com/appthrust/capt/internal/kubernetes/object"
)

// maxLanes limits the machines of a timeline.
const maxLanes = 30

// The changes of a Cluster that its timeline names.
const (
	changeCreate  = "Create"
	changeUpgrade = "Upgrade"
	changeDelete  = "Delete"
)

// deletionSteps are the conditions that report what is deleted, one after the other.
var deletionSteps = []string{
	controlplanev1.GuardedCondition, controlplanev1.LoadBalancersGoneCondition, controlplanev1.VolumesGoneCondition,
	controlplanev1.NodesGoneCondition, controlplanev1.AddonsGoneCondition, controlplanev1.MachinesGoneCondition,
	controlplanev1.LeftoversGoneCondition, infrav1.ControlPlaneGoneCondition, infrav1.DestroyedCondition,
}

// timeline collects what happened to a Cluster.
type timeline struct {
	cluster *clusterv1.Cluster
	// upgrades are when upgrades of the control plane began, as far as that is known.
	upgrades []metav1.Time
	// periods are the times in which something happened. The deletion and each upgrade
	// begin another one.
	periods periods
	spans   []Span
}

// newTimeline returns what happened to a Cluster and when, as far as it is recorded:
// objects keep the last transition of a condition and the latest runs, and Kubernetes
// keeps events for an hour.
func newTimeline(objects *describe.Objects, events []Event) []Span {
	t := &timeline{cluster: objects.Cluster}
	var parts []client.Object
	machines := 0
	for _, item := range objects.Items {
		if owner, owned := describe.ClusterOf(item); !owned || owner != keyOf(t.cluster) {
			continue
		}
		switch obj := item.(type) {
		case *controlplanev1.CAPTControlPlane:
			parts = append(parts, obj)
			if c := meta.FindStatusCondition(obj.Status.Conditions, clusterv1.ReadyCondition); c != nil && c.Reason == controlplanev1.UpgradingReason {
				t.upgrades = append(t.upgrades, c.LastTransitionTime)
			}
		case *infrav1.CAPTCluster, *infrav1.CAPTMachinePool, *infrav1.CAPTMachineDeployment:
			parts = append(parts, obj)
		case *clusterv1.Machine, *infrav1.CAPTMachine:
			if machines++; machines <= maxLanes {
				parts = append(parts, obj)
			}
		case *infrav1.WorkspaceTemplateApply:
			t.spans = append(t.spans, runSpans(obj)...)
		}
	}
	for _, e := range events {
		if e.Reason == controlplanev1.UpgradingReason && e.Kind == "CAPTControlPlane" {
			t.upgrades = append(t.upgrades, e.Last)
		}
	}
	t.findPeriods(append(parts, t.cluster))
	t.addObject(t.cluster, clusterv1.ClusterAvailableCondition)
	for _, obj := range parts {
		t.addObject(obj, clusterv1.ReadyCondition)
	}
	for i := range objects.Addons {
		if status := objects.Addons[i].StatusIn(t.cluster.Name); status != nil {
			t.spans = append(t.spans, t.addonSpan(objects.Addons[i].Name, status.Reason, status.Ready, status.Since))
		}
	}
	slices.SortStableFunc(t.spans, func(a, b Span) int {
		return cmp.Or(a.Start.Compare(b.Start.Time), cmp.Compare(a.Lane, b.Lane))
	})
	return t.spans
}

// findPeriods finds when something happened to the Cluster: runs, transitions of
// conditions, and objects that were created.
func (t *timeline) findPeriods(parts []client.Object) {
	for _, began := range t.upgrades {
		t.periods.cuts = append(t.periods.cuts, began.Time)
		t.periods.add(began.Time, began.Time)
	}
	if deleted := t.cluster.DeletionTimestamp; !deleted.IsZero() {
		t.periods.cuts = append(t.periods.cuts, deleted.Time)
	}
	for _, span := range t.spans {
		if !span.Gap {
			t.periods.add(span.Start.Time, cmp.Or(span.End, span.Start).Time)
		}
	}
	for _, obj := range parts {
		t.periods.add(obj.GetCreationTimestamp().Time, obj.GetCreationTimestamp().Time)
		for _, c := range describe.ConditionsOf(obj) {
			t.periods.add(c.LastTransitionTime.Time, c.LastTransitionTime.Time)
		}
	}
	t.periods.join()
}

// addObject adds the creation of an object, and what its conditions report since then:
// that it was ready again after a change, is not ready, or is being deleted.
func (t *timeline) addObject(obj client.Object, summary string) {
	all := describe.ConditionsOf(obj)
	c := meta.FindStatusCondition(all, summary)
	created := obj.GetCreationTimestamp()
	creation := Span{Lane: laneOf(obj), Start: created, Label: "Creating", State: describe.StateWaiting}
	if obj == client.Object(t.cluster) {
		creation.Change = changeCreate
	}
	deleting := !obj.GetDeletionTimestamp().IsZero()
	switch {
	case c == nil && deleting:
	case c == nil:
		t.spans = append(t.spans, creation)
	case !deleting && t.periods.same(created.Time, c.LastTransitionTime.Time):
		// It has the status since its creation.
		t.spans = append(t.spans, withStatus(creation, c))
	default:
		// Conditions that have not changed since then report the end of the creation.
		for _, c := range all {
			if c.Status == metav1.ConditionTrue && t.periods.same(created.Time, c.LastTransitionTime.Time) && c.LastTransitionTime.After(creation.End.Time) {
				creation.End, creation.Label, creation.State = c.LastTransitionTime, "Created", describe.StateReady
			}
		}
		if !creation.End.IsZero() {
			t.spans = append(t.spans, creation)
		}
		if !deleting {
			t.spans = append(t.spans, withStatus(t.laterSpan(obj, all, c), c))
		}
	}
	t.addDeletion(obj, all)
}

// laterSpan returns a span that begins with the first sign of a change of an object which
// led to its current status.
func (t *timeline) laterSpan(obj client.Object, all []metav1.Condition, status *metav1.Condition) Span {
	span := Span{Lane: laneOf(obj), Start: status.LastTransitionTime}
	if status.Status != metav1.ConditionTrue {
		if status.Reason == controlplanev1.UpgradingReason {
			span.Change = changeUpgrade
		}
		return span
	}
	earlier := func(start metav1.Time) {
		if t.periods.same(start.Time, status.LastTransitionTime.Time) && start.Before(&span.Start) {
			span.Start = start
		}
	}
	for _, c := range all {
		earlier(c.LastTransitionTime)
	}
	controlPlane, found := obj.(*controlplanev1.CAPTControlPlane)
	if !found {
		return span
	}
	for _, began := range t.upgrades {
		if t.periods.same(began.Time, status.LastTransitionTime.Time) && began.Before(&status.LastTransitionTime) {
			span.Change = changeUpgrade
			earlier(began)
		}
	}
	for _, run := range t.spans {
		if ref := controlPlane.Status.WorkspaceRef; ref != nil && run.Workspace == ref.Name && !run.Gap {
			earlier(run.Start)
		}
	}
	return span
}

// withStatus returns a span with the status of an object.
func withStatus(span Span, c *metav1.Condition) Span {
	if c.Status == metav1.ConditionTrue {
		span.End, span.Label, span.State = c.LastTransitionTime, "Ready", describe.StateReady
		return span
	}
	span.Label, span.State = c.Reason, describe.StateFor(c.Reason)
	return span
}

// addDeletion adds the deletion of an object with its steps. Those of a control plane
// begin when the Cluster is deleted.
func (t *timeline) addDeletion(obj client.Object, all []metav1.Condition) {
	own, cluster := obj.GetDeletionTimestamp(), t.cluster.DeletionTimestamp
	if !own.IsZero() {
		t.spans = append(t.spans, Span{Lane: laneOf(obj), Start: *own, Label: "Deleting", State: describe.StateWaiting, Change: changeDelete})
	}
	began := cmp.Or(cluster, own)
	switch obj.(type) {
	case *infrav1.CAPTCluster, *controlplanev1.CAPTControlPlane:
	default:
		return
	}
	if began.IsZero() {
		return
	}
	steps := slices.DeleteFunc(slices.Clone(all), func(c metav1.Condition) bool {
		return !slices.Contains(deletionSteps, c.Type) || c.LastTransitionTime.Before(began)
	})
	slices.SortStableFunc(steps, func(a, b metav1.Condition) int {
		// Steps that are done come first.
		rest := func(c metav1.Condition) int {
			if c.Status == metav1.ConditionTrue {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(rest(a), rest(b)), a.LastTransitionTime.Compare(b.LastTransitionTime.Time),
			cmp.Compare(slices.Index(deletionSteps, a.Type), slices.Index(deletionSteps, b.Type)))
	})
	start := *began
	for _, c := range steps {
		span := withStatus(Span{Lane: object.Kind(obj) + ": " + c.Type, Start: start, Change: changeDelete}, &c)
		if c.Status == metav1.ConditionTrue {
			span.Label, start = "Done", c.LastTransitionTime
		}
		t.spans = append(t.spans, span)
	}
}

// pauseBetweenPeriods separates what belongs together from what happened later. The page
// splits a timeline in the same way.
const pauseBetweenPeriods = time.Hour

// periods are times in which something happened, without long pauses.
type periods struct {
	all [][2]time.Time
	// cuts are when another period begins without a pause.
	cuts []time.Time
}

func (p *periods) add(from, to time.Time) { p.all = append(p.all, [2]time.Time{from, to}) }

// join sorts the periods, and joins those between which the pause is short.
func (p *periods) join() {
	slices.SortFunc(p.all, func(a, b [2]time.Time) int { return a[0].Compare(b[0]) })
	var joined [][2]time.Time
	for _, period := range p.all {
		if last := len(joined) - 1; last >= 0 && period[0].Sub(joined[last][1]) < pauseBetweenPeriods {
			if period[1].After(joined[last][1]) {
				joined[last][1] = period[1]
			}
			continue
		}
		joined = append(joined, period)
	}
	p.all = joined
}

// same reports whether two times are in the same period.
func (p *periods) same(a, b time.Time) bool {
	if b.Before(a) {
		a, b = b, a
	}
	if slices.ContainsFunc(p.cuts, func(cut time.Time) bool { return a.Before(cut) && !b.Before(cut) }) {
		return false
	}
	return slices.ContainsFunc(p.all, func(period [2]time.Time) bool { return !a.Before(period[0]) && !b.After(period[1]) })
}

func laneOf(obj client.Object) string { return object.Kind(obj) + "/" + obj.GetName() }

// addonSpan returns the time in which an add-on had its current status. One that is ready
// since the creation of the Cluster began with it.
func (t *timeline) addonSpan(name, reason string, ready *bool, since metav1.Time) Span {
	span := Span{Lane: "CAPTAddon/" + name, Label: reason, Start: since, State: describe.StateFor(reason)}
	if ready != nil && *ready {
		span.End, span.Label, span.State = since, "Ready", describe.StateReady
		if t.periods.same(t.cluster.CreationTimestamp.Time, since.Time) {
			span.Start = t.cluster.CreationTimestamp
		}
	}
	return span
}

// runSpans returns the runs of a workspace, with a gap for runs that are not recorded
// anymore.
func runSpans(apply *infrav1.WorkspaceTemplateApply) []Span {
	lane := "Workspace/" + apply.Name
	var spans []Span
	known := len(apply.Status.History)
	if apply.Status.Run != nil {
		known++
	}
	if omitted := apply.Status.Runs - int64(known); omitted > 0 && len(apply.Status.History) > 0 {
		oldest := apply.Status.History[len(apply.Status.History)-1]
		spans = append(spans, Span{
			Lane: lane, Label: fmt.Sprintf("%d earlier runs", omitted), Start: apply.CreationTimestamp, End: oldest.StartedAt,
			State: describe.StateUnknown, Workspace: apply.Name, Gap: true,
		})
	}
	for _, run := range slices.Backward(apply.Status.History) {
		spans = append(spans, Span{
			Lane: lane, Label: fmt.Sprintf("%s %s", run.Operation, run.Outcome), Start: run.StartedAt,
			End: metav1.NewTime(run.StartedAt.Add(run.Duration.Duration)), State: describe.OutcomeState(run.Outcome), Workspace: apply.Name,
		})
	}
	if run := apply.Status.Run; run != nil {
		spans = append(spans, Span{Lane: lane, Label: string(run.Operation), Start: run.StartedAt, State: describe.StateWaiting, Workspace: apply.Name})
	}
	return spans
}
