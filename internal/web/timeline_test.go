package web

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/describe"
)

func TestNewTimeline_showsWhatIsRecorded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	apply := fleetWorkspace("net", nil)
	apply.Status.Runs = 5
	apply.Status.History = []infrav1.RunRecord{
		{ID: "net-r4", Operation: "Apply", Outcome: "Failed", StartedAt: at(20), Duration: metav1.Duration{Duration: time.Minute}},
		{ID: "net-r3", Operation: "Apply", Outcome: "Succeeded", StartedAt: at(10), Duration: metav1.Duration{Duration: 2 * time.Minute}},
	}
	apply.Status.Run = &infrav1.RunStatus{ID: "net-r5", Operation: "Apply", StartedAt: at(30)}
	foreign := fleetWorkspace("foreign", nil)
	foreign.Labels[clusterv1.ClusterNameLabel] = "other"
	foreign.Status.History = apply.Status.History
	g.Expect(newTimeline(fleetCluster(apply, foreign), nil)).To(Equal([]Span{
		{Lane: "Cluster/demo", Label: "Ready", Start: day, End: at(5), State: describe.StateReady, Change: changeCreate},
		{Lane: "Workspace/net", Label: "2 earlier runs", Start: day, End: at(10), State: describe.StateUnknown, Workspace: "net", Gap: true},
		{Lane: "Workspace/net", Label: "Apply Succeeded", Start: at(10), End: at(12), State: describe.StateReady, Workspace: "net"},
		{Lane: "Workspace/net", Label: "Apply Failed", Start: at(20), End: at(21), State: describe.StateFailed, Workspace: "net"},
		{Lane: "Workspace/net", Label: "Apply", Start: at(30), State: describe.StateWaiting, Workspace: "net"},
	}))
}

// timelineControlPlane returns a control plane whose workspace is net, with conditions.
func timelineControlPlane(all ...metav1.Condition) *controlplanev1.CAPTControlPlane {
	return &controlplanev1.CAPTControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "demo", UID: "cp", Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}, CreationTimestamp: day},
		Status:     controlplanev1.CAPTControlPlaneStatus{Conditions: all, WorkspaceRef: &infrav1.LocalReference{Name: "net"}},
	}
}

func conditionAt(name string, status metav1.ConditionStatus, reason string, minute int) metav1.Condition {
	return metav1.Condition{Type: name, Status: status, Reason: reason, LastTransitionTime: at(minute)}
}

func TestNewTimeline_showsUpgrade(t *testing.T) {
	t.Parallel()
	const lane = "CAPTControlPlane/demo"
	created := Span{Lane: lane, Label: "Created", Start: day, End: at(4), State: describe.StateReady}
	endpoint := conditionAt(controlplanev1.EndpointReadyCondition, metav1.ConditionTrue, "EndpointReady", 4)
	events := func(minute int) []Event {
		return []Event{{Kind: "CAPTControlPlane", Name: "demo", Reason: controlplanev1.UpgradingReason, Last: at(minute)}}
	}
	ready := func(minute int) metav1.Condition {
		return conditionAt("Ready", metav1.ConditionTrue, "Ready", minute)
	}
	run := fleetWorkspace("net", nil)
	run.Status.Runs = 1
	run.Status.History = []infrav1.RunRecord{{ID: "net-r1", Operation: "Apply", Outcome: "Succeeded", StartedAt: at(302), Duration: metav1.Duration{Duration: 7 * time.Minute}}}
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		events     []Event
		items      []client.Object
		want       []Span
	}{
		"in progress, soon after the creation": {
			[]metav1.Condition{endpoint, conditionAt("Ready", metav1.ConditionFalse, controlplanev1.UpgradingReason, 30)},
			nil, nil,
			[]Span{created, {Lane: lane, Label: "Upgrading", Start: at(30), State: describe.StateWaiting, Change: changeUpgrade}},
		},
		"finished, with its event": {
			[]metav1.Condition{endpoint, ready(310)},
			events(300), nil,
			[]Span{created, {Lane: lane, Label: "Ready", Start: at(300), End: at(310), State: describe.StateReady, Change: changeUpgrade}},
		},
		"finished, soon after the creation": {
			[]metav1.Condition{endpoint, ready(40)},
			events(30), nil,
			[]Span{created, {Lane: lane, Label: "Ready", Start: at(30), End: at(40), State: describe.StateReady, Change: changeUpgrade}},
		},
		"a change without an event begins with its run": {
			[]metav1.Condition{endpoint, ready(310)},
			nil,
			[]client.Object{run},
			[]Span{created, {Lane: lane, Label: "Ready", Start: at(302), End: at(310), State: describe.StateReady}},
		},
		"a failure later": {
			[]metav1.Condition{endpoint, conditionAt("Ready", metav1.ConditionFalse, infrav1.WorkspaceFailedReason, 310)},
			nil, nil,
			[]Span{created, {Lane: lane, Label: infrav1.WorkspaceFailedReason, Start: at(310), State: describe.StateFailed}},
		},
		"never ready": {
			[]metav1.Condition{conditionAt("Ready", metav1.ConditionFalse, infrav1.WaitingForWorkspaceReason, 1)},
			nil, nil,
			[]Span{{Lane: lane, Label: infrav1.WaitingForWorkspaceReason, Start: day, State: describe.StateWaiting}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := newTimeline(fleetCluster(append(test.items, timelineControlPlane(test.conditions...))...), test.events)
			found = slices.DeleteFunc(found, func(s Span) bool { return s.Lane != lane })
			NewWithT(t).Expect(found).To(Equal(test.want))
		})
	}
}

func TestNewTimeline_showsDeletion(t *testing.T) {
	t.Parallel()
	controlPlane := timelineControlPlane(
		conditionAt("Ready", metav1.ConditionFalse, infrav1.DeletingReason, 600),
		conditionAt(controlplanev1.EndpointReadyCondition, metav1.ConditionTrue, "EndpointReady", 4),
		conditionAt(controlplanev1.NodesGoneCondition, metav1.ConditionFalse, infrav1.DeletingReason, 601),
		conditionAt(controlplanev1.LoadBalancersGoneCondition, metav1.ConditionTrue, "LoadBalancersGone", 603),
		conditionAt(controlplanev1.GuardedCondition, metav1.ConditionTrue, "Guarded", 601),
	)
	objects := fleetCluster(controlPlane)
	deleted := at(600)
	objects.Cluster.DeletionTimestamp = &deleted
	const lane = "CAPTControlPlane/demo"
	NewWithT(t).Expect(newTimeline(objects, nil)).To(Equal([]Span{
		{Lane: lane, Label: "Created", Start: day, End: at(4), State: describe.StateReady},
		{Lane: "Cluster/demo", Label: "Created", Start: day, End: at(5), State: describe.StateReady, Change: changeCreate},
		{Lane: lane, Label: infrav1.DeletingReason, Start: at(600), State: describe.StateWaiting},
		{Lane: "CAPTControlPlane: Guarded", Label: "Done", Start: deleted, End: at(601), State: describe.StateReady, Change: changeDelete},
		{Lane: "Cluster/demo", Label: "Deleting", Start: deleted, State: describe.StateWaiting, Change: changeDelete},
		{Lane: "CAPTControlPlane: LoadBalancersGone", Label: "Done", Start: at(601), End: at(603), State: describe.StateReady, Change: changeDelete},
		{Lane: "CAPTControlPlane: NodesGone", Label: infrav1.DeletingReason, Start: at(603), State: describe.StateWaiting, Change: changeDelete},
	}))
}
