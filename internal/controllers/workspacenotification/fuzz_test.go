package workspacenotification

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

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
