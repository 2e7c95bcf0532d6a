package describe

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestStateFor_reason(t *testing.T) {
	for reason, want := range map[string]State{
		infrav1.WaitingForApprovalReason: StateAttention,
		infrav1.LockHeldReason:           StateAttention,
		infrav1.RunFailedReason:          StateFailed,
		clusterv1.InternalErrorReason:    StateFailed,
		infrav1.RunInProgressReason:      StateWaiting,
		"SomethingNew":                   StateWaiting,
		"":                               StateWaiting,
	} {
		NewWithT(t).Expect(StateFor(reason)).To(Equal(want), reason)
	}
}

func TestStateFor_noReasonIsInBothLists(t *testing.T) {
	for _, reason := range attentionReasons {
		NewWithT(t).Expect(failureReasons).NotTo(ContainElement(reason))
	}
}

func TestConditionState_dependsOnPolarity(t *testing.T) {
	for name, tc := range map[string]struct {
		condition metav1.Condition
		want      State
	}{
		"positive, true":    {metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready"}, StateReady},
		"positive, false":   {metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: infrav1.RunFailedReason}, StateFailed},
		"positive, unknown": {metav1.Condition{Type: "Ready", Status: metav1.ConditionUnknown, Reason: infrav1.RunFailedReason}, StateUnknown},
		"negative, true":    {metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue}, StateWaiting},
		"negative, false":   {metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse}, StateReady},
		"negative, unknown": {metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionUnknown}, StateUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(conditionState(&tc.condition)).To(Equal(tc.want))
		})
	}
}

func TestSummaryCondition_prefersReady(t *testing.T) {
	conditions := func(types ...string) *infrav1.CAPTCluster {
		obj := &infrav1.CAPTCluster{}
		for _, name := range types {
			obj.Status.Conditions = append(obj.Status.Conditions, metav1.Condition{Type: name})
		}
		return obj
	}
	for name, tc := range map[string]struct {
		obj  *infrav1.CAPTCluster
		want string
	}{
		"both":      {conditions("Available", "Ready"), "Ready"},
		"available": {conditions("Other", "Available"), "Available"},
		"neither":   {conditions("Other"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := summaryCondition(tc.obj)
			if tc.want == "" {
				g.Expect(c).To(BeNil())
				return
			}
			g.Expect(c.Type).To(Equal(tc.want))
		})
	}
}

func TestSetStatus_deletionAndPauseOverrideTheCondition(t *testing.T) {
	at := func(minute int) metav1.Time { return metav1.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC) }
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", Message: "all is well", LastTransitionTime: at(1)}
	failed := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: infrav1.RunFailedReason, Message: "no capacity", LastTransitionTime: at(2)}
	deleting := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: infrav1.DeletingReason, Message: "Run r2 is destroying", LastTransitionTime: at(2)}
	paused := metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue, LastTransitionTime: at(3)}
	notPaused := metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse, LastTransitionTime: at(3)}
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		deleted    bool
		want       Node
	}{
		"ready":                  {conditions: []metav1.Condition{ready}, want: Node{State: StateReady, Reason: "Ready", Since: at(1)}},
		"failed":                 {conditions: []metav1.Condition{failed, notPaused}, want: Node{State: StateFailed, Reason: infrav1.RunFailedReason, Message: "no capacity", Since: at(2)}},
		"no condition":           {want: Node{State: StateUnknown, Reason: notReported, Since: at(0)}},
		"deleting":               {conditions: []metav1.Condition{ready}, deleted: true, want: Node{State: StateWaiting, Reason: infrav1.DeletingReason, Since: at(4)}},
		"deleting, no condition": {deleted: true, want: Node{State: StateWaiting, Reason: infrav1.DeletingReason, Since: at(4)}},
		"destruction waits": {
			conditions: []metav1.Condition{deleting, {Type: infrav1.DestroyedCondition, Status: metav1.ConditionFalse, Reason: infrav1.WaitingForApprovalReason, Message: "Plan plan-1 waits", LastTransitionTime: at(5)}},
			deleted:    true, want: Node{State: StateAttention, Reason: infrav1.WaitingForApprovalReason, Message: "Plan plan-1 waits", Since: at(5)},
		},
		"destruction runs": {
			conditions: []metav1.Condition{deleting, {Type: infrav1.DestroyedCondition, Status: metav1.ConditionFalse, Reason: infrav1.RunInProgressReason, Message: "Run r2", LastTransitionTime: at(5)}},
			deleted:    true, want: Node{State: StateWaiting, Reason: infrav1.DeletingReason, Message: "Run r2 is destroying", Since: at(4)},
		},
		"deleting failed":              {conditions: []metav1.Condition{failed}, deleted: true, want: Node{State: StateFailed, Reason: infrav1.DeletingReason, Message: "no capacity", Since: at(4)}},
		"paused":                       {conditions: []metav1.Condition{failed, paused}, want: Node{State: StateAttention, Reason: clusterv1.PausedReason, Message: "Reconciliation is paused. no capacity", Since: at(3)}},
		"paused, no message":           {conditions: []metav1.Condition{paused}, want: Node{State: StateAttention, Reason: clusterv1.PausedReason, Message: "Reconciliation is paused.", Since: at(3)}},
		"ready and paused stays ready": {conditions: []metav1.Condition{ready, paused}, want: Node{State: StateReady, Reason: "Ready", Since: at(1)}},
		"deleting and paused":          {conditions: []metav1.Condition{ready, paused}, deleted: true, want: Node{State: StateAttention, Reason: clusterv1.PausedReason, Message: "Reconciliation is paused.", Since: at(3)}},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &infrav1.CAPTCluster{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(0)}}
			obj.Status.Conditions = tc.conditions
			if tc.deleted {
				obj.DeletionTimestamp = new(at(4))
			}
			var n Node
			setStatus(&n, obj)
			NewWithT(t).Expect(n).To(Equal(tc.want))
		})
	}
}

func TestSetStatus_namesAMissingClass(t *testing.T) {
	g := NewWithT(t)
	cluster := &clusterv1.Cluster{}
	cluster.Status.Conditions = []metav1.Condition{{Type: clusterv1.ClusterTopologyReconciledCondition, Status: metav1.ConditionFalse, Reason: clusterv1.ClusterTopologyReconciledFailedReason, Message: "ClusterClass local not found"}}
	var node Node
	setStatus(&node, cluster)
	g.Expect(node.State).To(Equal(StateFailed))
	g.Expect(node.Message).To(Equal("ClusterClass local not found"))

	cluster.Status.Conditions[0].Status = metav1.ConditionTrue
	setStatus(&node, cluster)
	g.Expect(node.Reason).To(Equal(notReported))
}
