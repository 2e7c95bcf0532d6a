package workspacenotification

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// eventTypes are the types of CloudEvents. Receivers depend on them.
var eventTypes = map[infrav1.NotificationEvent]string{
	infrav1.NotifyWaitingForApproval: "io.appthrust.capt.workspace.waiting-for-approval",
	infrav1.NotifyPolicyDenied:       "io.appthrust.capt.workspace.policy-denied",
	infrav1.NotifyFailed:             "io.appthrust.capt.workspace.failed",
	infrav1.NotifyDrift:              "io.appthrust.capt.workspace.drift",
	infrav1.NotifyApplied:            "io.appthrust.capt.workspace.applied",
}

// cloudEvent is an event of CloudEvents 1.0 in structured mode.
type cloudEvent struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         string    `json:"subject"`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            message   `json:"data"`
}

// encode returns a message in a format, and its content type.
func encode(format infrav1.NotificationFormat, m message) (body []byte, contentType string, err error) {
	var content any
	contentType = "application/json"
	switch format {
	case infrav1.NotificationSlack:
		content = map[string]string{"text": slackText(m)}
	case infrav1.NotificationGeneric:
		content = m
	default:
		contentType = "application/cloudevents+json; charset=utf-8"
		content = cloudEvent{
			SpecVersion: "1.0", ID: m.ID, Type: eventTypes[m.Event], Time: m.Time, DataContentType: "application/json", Data: m,
			Source:  fmt.Sprintf("/apis/%s/namespaces/%s/workspacetemplateapplies/%s", infrav1.GroupVersion, m.Workspace.Namespace, m.Workspace.Name),
			Subject: m.Workspace.Namespace + "/" + m.Workspace.Name,
		}
	}
	body, err = json.Marshal(content)
	if err != nil {
		return nil, "", fmt.Errorf("encoding message %s: %w", m.ID, err)
	}
	return body, contentType, nil
}

// titles are the events in the words of Slack messages.
var titles = map[infrav1.NotificationEvent]string{
	infrav1.NotifyWaitingForApproval: "Waiting for approval",
	infrav1.NotifyPolicyDenied:       "Denied by a policy",
	infrav1.NotifyFailed:             "Failed",
	infrav1.NotifyDrift:              "Drift",
	infrav1.NotifyApplied:            "Applied",
}

// slackText returns a message as text of Slack. Nothing in it is a link or mentions users,
// also in systems that accept the format and in which a bare @all does.
func slackText(m message) string {
	lines := []string{fmt.Sprintf("%s: workspace %s/%s", titles[m.Event], m.Workspace.Namespace, m.Workspace.Name), m.Text}
	for _, v := range m.Violations {
		lines = append(lines, fmt.Sprintf("• %s %s: %s", v.Action, v.Policy, v.Message))
	}
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "@\u200b").Replace(strings.Join(lines, "\n"))
}
