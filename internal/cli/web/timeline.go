package web

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/describe"
	"github.com/appthrust/capt/internal/kubernetes/object"
)

// maxLanes limits the machines of a timeline.
const maxLanes = 30

// newTimeline returns what happened to a Cluster and when, as far as it is recorded:
// objects keep the last transition of a condition and the latest runs.
func newTimeline(objects *describe.Objects) []Span {
	cluster := objects.Cluster
	spans := []Span{objectSpan(cluster, clusterv1.ClusterAvailableCondition)}
	machines := 0
	for _, item := range objects.Items {
		if owner, owned := clusterOf(item); !owned || owner != keyOf(cluster) {
			continue
		}
		switch obj := item.(type) {
		case *infrav1.CAPTCluster, *controlplanev1.CAPTControlPlane, *clusterv1.MachinePool, *infrav1.CAPTMachineDeployment:
			spans = append(spans, objectSpan(obj, clusterv1.ReadyCondition))
		case *clusterv1.Machine, *infrav1.CAPTMachine:
			if machines++; machines <= maxLanes {
				spans = append(spans, objectSpan(obj, clusterv1.ReadyCondition))
			}
		case *infrav1.WorkspaceTemplateApply:
			spans = append(spans, runSpans(obj)...)
		}
	}
	for i := range objects.Addons {
		if status := objects.Addons[i].StatusIn(cluster.Name); status != nil {
			spans = append(spans, addonSpan(cluster, objects.Addons[i].Name, status.Reason, status.Ready, status.Since))
		}
	}
	slices.SortStableFunc(spans, func(a, b Span) int {
		return cmp.Or(a.Start.Compare(b.Start.Time), cmp.Compare(a.Lane, b.Lane))
	})
	return spans
}

// objectSpan returns the time from the creation of an object until it was ready.
func objectSpan(obj client.Object, name string) Span {
	span := Span{Lane: laneOf(obj), Start: obj.GetCreationTimestamp(), Label: "Creating", State: describe.StateWaiting}
	if deleted := obj.GetDeletionTimestamp(); !deleted.IsZero() {
		span.Start, span.Label = *deleted, "Deleting"
		return span
	}
	var all []metav1.Condition
	if getter, ok := obj.(conditions.Getter); ok {
		all = getter.GetConditions()
	}
	c := meta.FindStatusCondition(all, name)
	switch {
	case c == nil:
	case c.Status == metav1.ConditionTrue:
		span.End, span.Label, span.State = c.LastTransitionTime, "Ready", describe.StateReady
	default:
		span.Label, span.State = c.Reason, describe.StateFor(c.Reason)
	}
	return span
}

func laneOf(obj client.Object) string { return object.Kind(obj) + "/" + obj.GetName() }

// addonSpan returns the time in which an add-on had its current status.
func addonSpan(cluster *clusterv1.Cluster, name, reason string, ready *bool, since metav1.Time) Span {
	span := Span{Lane: "CAPTAddon/" + name, Label: reason, Start: since, State: describe.StateFor(reason)}
	if ready != nil && *ready {
		span.Start, span.End, span.Label, span.State = cluster.CreationTimestamp, since, "Ready", describe.StateReady
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
			End: metav1.NewTime(run.StartedAt.Add(run.Duration.Duration)), State: outcomeState(string(run.Outcome)), Workspace: apply.Name,
		})
	}
	if run := apply.Status.Run; run != nil {
		spans = append(spans, Span{Lane: lane, Label: string(run.Operation), Start: run.StartedAt, State: describe.StateWaiting, Workspace: apply.Name})
	}
	return spans
}

// outcomeState returns the state that the outcome of a run leads to.
func outcomeState(outcome string) describe.State {
	switch outcome {
	case "Failed", "TimedOut", "Lost":
		return describe.StateFailed
	case "Planned", "Blocked", "Denied", "Canceled":
		return describe.StateAttention
	case "Interrupted":
		return describe.StateWaiting
	default:
		return describe.StateReady
	}
}
