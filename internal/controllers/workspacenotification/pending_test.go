package workspacenotification

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func markAt(at time.Time, id string) infrav1.NotificationMark {
	return infrav1.NotificationMark{At: metav1.NewTime(at), ID: id}
}

func TestSettle_remembersEachMessageOnce(t *testing.T) {
	g := NewWithT(t)
	status := &infrav1.WorkspaceNotificationStatus{}
	settle(status, markAt(start, "b"), start)

	g.Expect(isSettled(status, markAt(start, "b"))).To(BeTrue())
	g.Expect(isSettled(status, markAt(start, "a"))).To(BeFalse(), "another one of the same second")
	g.Expect(isSettled(status, markAt(start.Add(-time.Minute), "a"))).To(BeFalse(), "a late one")
}

func TestSettle_isBounded(t *testing.T) {
	g := NewWithT(t)
	status := &infrav1.WorkspaceNotificationStatus{}
	for i := range 3 * maxDelivered {
		settle(status, markAt(start, fmt.Sprintf("%04d", i)), start)
	}
	g.Expect(status.Delivered).To(HaveLen(maxDelivered))
	for i := range 3 * maxDelivered {
		g.Expect(isSettled(status, markAt(start, fmt.Sprintf("%04d", i)))).To(BeTrue())
	}
	g.Expect(isSettled(status, markAt(start, fmt.Sprintf("%04d", 3*maxDelivered)))).To(BeFalse(), "the rest of the same second")

	hour := start.Add(time.Hour)
	settle(status, markAt(hour, "w"), hour)
	g.Expect(isSettled(status, markAt(start.Add(time.Minute), "a"))).To(BeFalse(), "the manager was away when it happened")

	later := hour.Add(maxAge + time.Second)
	settle(status, markAt(later, "x"), later)
	g.Expect(status.Delivered).To(Equal([]infrav1.NotificationMark{markAt(later, "x")}), "those before are settled by their time")
	g.Expect(isSettled(status, markAt(start, "0000"))).To(BeTrue())
}

func TestIsWanted(t *testing.T) {
	created := start
	notification := &infrav1.WorkspaceNotification{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}}
	filtered := notification.DeepCopy()
	filtered.Spec.Events = []infrav1.NotificationEvent{infrav1.NotifyDrift}
	now := created.Add(48 * time.Hour)
	tests := []struct {
		name         string
		notification *infrav1.WorkspaceNotification
		at           time.Time
		want         bool
	}{
		{"just now", notification, now, true},
		{"another event", filtered, now, false},
		{"before the notification was created", notification, created.Add(-time.Second), false},
		{"more than a day ago", notification, now.Add(-25 * time.Hour), false},
		{"a clock that is somewhat ahead", notification, now.Add(time.Minute), true},
		{"a time that would settle all messages until then", notification, now.Add(time.Hour), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(isWanted(tt.notification, message{Event: infrav1.NotifyFailed, Time: tt.at}, now)).To(Equal(tt.want))
		})
	}
}

var mention = regexp.MustCompile(`@[A-Za-z]`)

// Modules and policies write texts of the status. In every format, a message stays one
// message, and in a chat it neither mentions users nor has links.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{"", "a", "<!channel>", "@all", "\"}{", "<https://example.com|OK>", "\u2028\x00\xff", "&lt;!here&gt;", "@\u200ball"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, text, address string) {
		apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "hello", UID: "u", Labels: map[string]string{clusterv1.ClusterNameLabel: text},
		}}
		at := metav1.NewTime(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
		apply.Status.History = []infrav1.RunRecord{{ID: "hello-r1", Operation: "Apply", Outcome: "Failed", StartedAt: at, Summary: text}}
		apply.Status.Failure = &infrav1.FailureStatus{Reason: infrav1.RunFailedReason, Message: text}
		apply.Status.Plan = &infrav1.PlanStatus{
			ID: "plan-1", Run: "hello-r1", CreatedAt: at, Waiting: new(true), Blocked: []string{address}, PolicyAction: infrav1.PolicyDeny,
			Violations: []infrav1.PolicyViolation{{Kind: "WorkspacePolicy", Policy: address, Rule: address, Action: infrav1.PolicyDeny, Message: text, Resources: []string{address}}},
		}
		apply.Status.Drift = &infrav1.DriftStatus{CheckedAt: at, Resources: []infrav1.ResourceChange{{Address: address, Action: "update"}}}
		for _, m := range messagesOf(apply) {
			for _, format := range []infrav1.NotificationFormat{infrav1.NotificationSlack, infrav1.NotificationGeneric, infrav1.NotificationCloudEvents} {
				body, _, err := encode(format, m)
				if err != nil || !json.Valid(body) {
					t.Fatalf("%s: %s: %v", format, body, err)
				}
			}
			if shown := slackText(m); strings.ContainsAny(shown, "<>") || mention.MatchString(shown) {
				t.Fatalf("%q mentions a user or has a link", shown)
			}
		}
	})
}
