package workspacenotification

import (
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ended(id string, operation infrav1.RunOperation, outcome infrav1.RunOutcome) infrav1.RunRecord {
	return infrav1.RunRecord{
		ID: id, Operation: operation, Outcome: outcome, Summary: "summary of " + id,
		StartedAt: metav1.NewTime(start), Duration: metav1.Duration{Duration: 90 * time.Second},
	}
}

func newApply(status infrav1.WorkspaceTemplateApplyStatus) *infrav1.WorkspaceTemplateApply {
	return &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "network", UID: "u"},
		Spec:       infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.TemplateReference{Name: "vpc"}},
		Status:     status,
	}
}

func waitingPlan() *infrav1.PlanStatus {
	return &infrav1.PlanStatus{ID: "plan-0123456789abcdef", Waiting: new(true), Add: 1, Destroy: 2, CreatedAt: metav1.NewTime(start)}
}

func TestMessages(t *testing.T) {
	denied, blocked, done := waitingPlan(), waitingPlan(), waitingPlan()
	denied.PolicyAction = infrav1.PolicyDeny
	denied.Violations = []infrav1.PolicyViolation{{Policy: "guard", Rule: "keep", Action: infrav1.PolicyDeny, Message: "Nothing is destroyed"}}
	blocked.Blocked = []string{"aws_vpc.this"}
	done.Waiting = new(false)
	drifted := []metav1.Condition{{Type: infrav1.NoDriftCondition, Status: metav1.ConditionFalse, Reason: infrav1.DriftDetectedReason, Message: "1 resources differ", LastTransitionTime: metav1.NewTime(start)}}
	tests := []struct {
		name   string
		status infrav1.WorkspaceTemplateApplyStatus
		// want are the events, each with the start of its text.
		want []string
	}{
		{name: "a new workspace"},
		{
			name:   "a run that changed resources",
			status: infrav1.WorkspaceTemplateApplyStatus{History: []infrav1.RunRecord{ended("r1", "PlanAndApply", "Succeeded")}},
			want:   []string{"Applied: Run r1 changed resources: summary of r1"},
		},
		{
			name: "runs that changed nothing",
			status: infrav1.WorkspaceTemplateApplyStatus{History: []infrav1.RunRecord{
				ended("r3", "CheckDrift", "Succeeded"), ended("r2", "PlanAndApply", "NoChanges"), ended("r1", "Plan", "Planned"),
			}},
		},
		{
			name: "the first of several failed runs",
			status: infrav1.WorkspaceTemplateApplyStatus{
				History: []infrav1.RunRecord{ended("r4", "PlanAndApply", "Failed"), ended("r3", "PlanAndApply", "TimedOut"), ended("r2", "PlanAndApply", "Failed"), ended("r1", "PlanAndApply", "NoChanges")},
				Failure: &infrav1.FailureStatus{Attempts: 3},
			},
			want: []string{"Failed: Run r2 (PlanAndApply) failed: summary of r2"},
		},
		{
			name: "a run that was stopped between failures, and a command of a user",
			status: infrav1.WorkspaceTemplateApplyStatus{
				History: []infrav1.RunRecord{ended("r5", "StateCommand", "Failed"), ended("r4", "PlanAndApply", "Failed"), ended("r3", "PlanAndApply", "Interrupted"), ended("r2", "PlanAndApply", "Failed"), ended("r1", "PlanAndApply", "NoChanges")},
			},
			want: []string{"Failed: Run r2 "},
		},
		{
			name:   "the first run fails",
			status: infrav1.WorkspaceTemplateApplyStatus{History: []infrav1.RunRecord{ended("r1", "PlanAndApply", "Failed")}, Failure: &infrav1.FailureStatus{Attempts: 1}},
			want:   []string{"Failed: Run r1 "},
		},
		{
			name:   "a failure that is repeated with a history of one run",
			status: infrav1.WorkspaceTemplateApplyStatus{History: []infrav1.RunRecord{ended("r7", "PlanAndApply", "Failed")}, Failure: &infrav1.FailureStatus{Attempts: 7}},
		},
		{
			name:   "a plan that waits",
			status: infrav1.WorkspaceTemplateApplyStatus{Plan: waitingPlan()},
			want:   []string{"WaitingForApproval: Plan plan-0123456789abcdef (1 to add, 0 to change, 2 to destroy) waits for approval. See: captctl show plan network -n team-a"},
		},
		{name: "a plan that was applied", status: infrav1.WorkspaceTemplateApplyStatus{Plan: done}},
		{
			name:   "a plan that a policy denies",
			status: infrav1.WorkspaceTemplateApplyStatus{Plan: denied},
			want:   []string{"PolicyDenied: Policies deny plan plan-0123456789abcdef"},
		},
		{
			name:   "a plan that would destroy a protected resource",
			status: infrav1.WorkspaceTemplateApplyStatus{Plan: blocked},
			want:   []string{"WaitingForApproval: Plan plan-0123456789abcdef (1 to add, 0 to change, 2 to destroy) would destroy protected resources, or does not find them: aws_vpc.this"},
		},
		{
			name:   "drift",
			status: infrav1.WorkspaceTemplateApplyStatus{Conditions: drifted, Drift: &infrav1.DriftStatus{Resources: []infrav1.ResourceChange{{Address: "a.b"}}}},
			want:   []string{"Drift: 1 resources differ"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)

			messages := messagesOf(newApply(tt.status))

			g.Expect(messages).To(HaveLen(len(tt.want)))
			for i, m := range messages {
				g.Expect(string(m.Event) + ": " + m.Text).To(HavePrefix(tt.want[i]))
				g.Expect(m.ID).To(HaveLen(16))
				g.Expect(m.Workspace).To(Equal(workspace{Namespace: "team-a", Name: "network", UID: "u", Template: "vpc"}))
			}
			g.Expect(messagesOf(newApply(tt.status))).To(Equal(messages), "ids and times are the same")
		})
	}
}

func TestMessages_endWithTheApproval(t *testing.T) {
	g := NewWithT(t)
	apply := newApply(infrav1.WorkspaceTemplateApplyStatus{Plan: waitingPlan()})
	apply.Spec.ApprovedPlan = apply.Status.Plan.ID
	g.Expect(messagesOf(apply)).To(BeEmpty())
}

func TestEncode(t *testing.T) {
	g := NewWithT(t)
	plan := waitingPlan()
	plan.PolicyAction = infrav1.PolicyDeny
	plan.Violations = []infrav1.PolicyViolation{{Policy: "guard", Rule: "keep", Action: infrav1.PolicyDeny, Message: "<!channel> & @all"}}
	m := messagesOf(newApply(infrav1.WorkspaceTemplateApplyStatus{Plan: plan}))[0]

	body, contentType, err := encode(infrav1.NotificationCloudEvents, m)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(contentType).To(HavePrefix("application/cloudevents+json"))
	var event map[string]any
	g.Expect(json.Unmarshal(body, &event)).To(Succeed())
	g.Expect(event).To(HaveKeyWithValue("specversion", "1.0"))
	g.Expect(event).To(HaveKeyWithValue("id", m.ID))
	g.Expect(event).To(HaveKeyWithValue("type", "io.appthrust.capt.workspace.policy-denied"))
	g.Expect(event).To(HaveKeyWithValue("source", "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/team-a/workspacetemplateapplies/network"))
	g.Expect(event).To(HaveKeyWithValue("subject", "team-a/network"))
	g.Expect(event).To(HaveKeyWithValue("time", "2026-01-02T03:04:05Z"))
	g.Expect(event["data"]).To(HaveKeyWithValue("event", "PolicyDenied"))

	body, contentType, err = encode(infrav1.NotificationGeneric, m)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(contentType).To(Equal("application/json"))
	var data map[string]any
	g.Expect(json.Unmarshal(body, &data)).To(Succeed())
	g.Expect(data).To(Equal(event["data"]))

	body, _, err = encode(infrav1.NotificationSlack, m)
	g.Expect(err).NotTo(HaveOccurred())
	var slack map[string]string
	g.Expect(json.Unmarshal(body, &slack)).To(Succeed())
	g.Expect(slack["text"]).To(HavePrefix("Denied by a policy: workspace team-a/network\n"))
	g.Expect(slack["text"]).To(HaveSuffix("• Deny guard: &lt;!channel&gt; &amp; @\u200ball"), "no user is mentioned")
	for _, kind := range []infrav1.NotificationEvent{infrav1.NotifyWaitingForApproval, infrav1.NotifyPolicyDenied, infrav1.NotifyFailed, infrav1.NotifyDrift, infrav1.NotifyApplied} {
		g.Expect(eventTypes).To(HaveKey(kind))
		g.Expect(titles).To(HaveKey(kind))
	}
}
