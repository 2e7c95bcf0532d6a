package workspacenotification

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	texts "github.com/appthrust/capt/internal/message"
)

// Limits of a message.
const (
	maxText      = 2048
	maxAddresses = 20
)

// message reports an event of a workspace or of an add-on. It has only what the status of the
// object has, which is free of secrets.
type message struct {
	ID        string                    `json:"id"`
	Event     infrav1.NotificationEvent `json:"event"`
	Time      time.Time                 `json:"time"`
	Workspace workspace                 `json:"workspace,omitzero"`
	Addon     addon                     `json:"addon,omitzero"`
	// Text is a sentence for users.
	Text string `json:"message"`
	// Run is the run that ended, if one did.
	Run *run `json:"run,omitempty"`
	// Plan is the plan that waits or is denied.
	Plan *plan `json:"plan,omitempty"`
	// Resources are the addresses of resources that drifted or are protected.
	Resources  []string    `json:"resources,omitempty"`
	Violations []violation `json:"violations,omitempty"`
}

type workspace struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Template  string `json:"template"`
	Cluster   string `json:"cluster,omitempty"`
}

type run struct {
	ID        string               `json:"id"`
	Operation infrav1.RunOperation `json:"operation"`
	Outcome   infrav1.RunOutcome   `json:"outcome"`
}

type plan struct {
	ID        string                `json:"id"`
	Operation infrav1.PlanOperation `json:"operation,omitempty"`
	Add       int32                 `json:"add"`
	Change    int32                 `json:"change"`
	Destroy   int32                 `json:"destroy"`
}

type violation struct {
	Policy  string               `json:"policy"`
	Rule    string               `json:"rule"`
	Action  infrav1.PolicyAction `json:"action"`
	Message string               `json:"message"`
}

// mark returns what identifies the message in the status.
func (m message) mark() infrav1.NotificationMark {
	return infrav1.NotificationMark{At: metav1.NewTime(m.Time), ID: m.ID}
}

// messagesOf returns the messages about a workspace: those of its recent runs, and those of
// its present state. An event has the same id whenever it is derived.
func messagesOf(apply *infrav1.WorkspaceTemplateApply) []message {
	messages := runMessages(apply)
	if m, found := planMessage(apply); found {
		messages = append(messages, m)
	}
	if m, found := driftMessage(apply); found {
		messages = append(messages, m)
	}
	return messages
}

// newMessage returns a message about an event. The key identifies the event among those of
// its kind.
func newMessage(apply *infrav1.WorkspaceTemplateApply, event infrav1.NotificationEvent, key string, at time.Time, format string, args ...any) message {
	m := newMessageAbout(string(apply.UID), event, key, at, format, args...)
	m.Workspace = workspace{
		Namespace: apply.Namespace, Name: apply.Name, UID: string(apply.UID),
		Template: apply.Spec.TemplateRef.Name, Cluster: apply.Labels[clusterv1.ClusterNameLabel],
	}
	return m
}

// newMessageAbout returns a message about an event of the object with a UID.
func newMessageAbout(uid string, event infrav1.NotificationEvent, key string, at time.Time, format string, args ...any) message {
	sum := sha256.Sum256([]byte(strings.Join([]string{uid, string(event), key}, "\n")))
	return message{
		ID: hex.EncodeToString(sum[:8]), Event: event, Time: at.UTC().Truncate(time.Second),
		Text: texts.Truncate(fmt.Sprintf(format, args...), maxText),
	}
}

// object returns the resource and the group that the message is about, its namespace and its name.
func (m message) object() (group, resource, namespace, name string) {
	if m.Addon.Name != "" {
		return addonsv1.GroupVersion.String(), "captaddons", m.Addon.Namespace, m.Addon.Name
	}
	return infrav1.GroupVersion.String(), "workspacetemplateapplies", m.Workspace.Namespace, m.Workspace.Name
}

// title returns the first line of the message for users.
func (m message) title() string {
	if m.Addon.Name != "" {
		return fmt.Sprintf("%s: add-on %s/%s in cluster %s", titles[m.Event], m.Addon.Namespace, m.Addon.Name, m.Addon.Cluster)
	}
	return fmt.Sprintf("%s: workspace %s/%s", titles[m.Event], m.Workspace.Namespace, m.Workspace.Name)
}

// runMessages returns the messages about runs in the history that changed resources, or
// failed after one that did not.
func runMessages(apply *infrav1.WorkspaceTemplateApply) []message {
	var messages []message
	history := slices.DeleteFunc(slices.Clone(apply.Status.History), func(r infrav1.RunRecord) bool { return !counts(r) })
	for i, record := range history {
		var m message
		finished := record.StartedAt.Add(record.Duration.Duration)
		switch {
		case changedResources(record):
			m = newMessage(apply, infrav1.NotifyApplied, record.ID, finished, "Run %s changed resources: %s", record.ID, record.Summary)
		case hasFailed(record) && !isRepeated(apply.Status.Failure, history, i):
			m = newMessage(apply, infrav1.NotifyFailed, record.ID, finished, "Run %s (%s) failed: %s", record.ID, record.Operation, record.Summary)
		default:
			continue
		}
		m.Run = &run{ID: record.ID, Operation: record.Operation, Outcome: record.Outcome}
		messages = append(messages, m)
	}
	return messages
}

// counts reports whether a run says something about the workspace. A run that was stopped,
// or a command on the state that a user executes, does not.
func counts(record infrav1.RunRecord) bool {
	switch record.Operation {
	case "StateCommand", "SaveState":
		return false
	}
	switch record.Outcome {
	case "Interrupted", "Canceled", "Lost":
		return false
	}
	return true
}

func hasFailed(record infrav1.RunRecord) bool {
	return record.Outcome == "Failed" || record.Outcome == "TimedOut"
}

func changedResources(record infrav1.RunRecord) bool {
	return record.Outcome == "Succeeded" && (record.Operation == "Apply" || record.Operation == "PlanAndApply")
}

// isRepeated reports whether a failed run repeats one that failed before. If the history
// does not have the run before the newest one, the number of attempts decides.
func isRepeated(failure *infrav1.FailureStatus, history []infrav1.RunRecord, i int) bool {
	switch {
	case i+1 < len(history):
		return hasFailed(history[i+1])
	case i == 0:
		return failure != nil && failure.Attempts > 1
	default:
		return true
	}
}

// planMessage returns the message about a plan that waits for a user, or is denied.
func planMessage(apply *infrav1.WorkspaceTemplateApply) (message, bool) {
	p := apply.Status.Plan
	if p == nil || p.Waiting == nil || !*p.Waiting {
		return message{}, false
	}
	changes := fmt.Sprintf("%d to add, %d to change, %d to destroy", p.Add, p.Change, p.Destroy)
	show := fmt.Sprintf("captctl show plan %s -n %s", apply.Name, apply.Namespace)
	var m message
	switch {
	case p.PolicyAction == infrav1.PolicyDeny:
		m = newMessage(apply, infrav1.NotifyPolicyDenied, p.ID, p.CreatedAt.Time, "Policies deny plan %s (%s). See: %s", p.ID, changes, show)
	case len(p.Blocked) > 0:
		m = newMessage(apply, infrav1.NotifyWaitingForApproval, p.ID, p.CreatedAt.Time,
			"Plan %s (%s) would destroy protected resources, or does not find them: %s. See: %s", p.ID, changes, texts.List(p.Blocked, 5), show)
		m.Resources = firstOf(p.Blocked)
	case apply.Spec.ApprovedPlan == p.ID:
		return message{}, false
	default:
		m = newMessage(apply, infrav1.NotifyWaitingForApproval, p.ID, p.CreatedAt.Time, "Plan %s (%s) waits for approval. See: %s", p.ID, changes, show)
	}
	m.Plan = &plan{ID: p.ID, Operation: p.Operation, Add: p.Add, Change: p.Change, Destroy: p.Destroy}
	for _, v := range p.Violations[:min(len(p.Violations), maxAddresses)] {
		m.Violations = append(m.Violations, violation{Policy: v.Policy, Rule: v.Rule, Action: v.Action, Message: v.Message})
	}
	return m, true
}

// driftMessage returns the message about resources that differ from the state.
func driftMessage(apply *infrav1.WorkspaceTemplateApply) (message, bool) {
	c := meta.FindStatusCondition(apply.Status.Conditions, infrav1.NoDriftCondition)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != infrav1.DriftDetectedReason || apply.Status.Drift == nil {
		return message{}, false
	}
	m := newMessage(apply, infrav1.NotifyDrift, c.LastTransitionTime.UTC().Format(time.RFC3339), c.LastTransitionTime.Time, "%s", c.Message)
	for _, resource := range apply.Status.Drift.Resources {
		m.Resources = append(m.Resources, resource.Address)
	}
	m.Resources = firstOf(m.Resources)
	return m, true
}

func firstOf(addresses []string) []string { return addresses[:min(len(addresses), maxAddresses)] }

// eventTypes are the types of CloudEvents. Receivers depend on them.
var eventTypes = map[infrav1.NotificationEvent]string{
	infrav1.NotifyWaitingForApproval: "io.appthrust.capt.workspace.waiting-for-approval",
	infrav1.NotifyPolicyDenied:       "io.appthrust.capt.workspace.policy-denied",
	infrav1.NotifyFailed:             "io.appthrust.capt.workspace.failed",
	infrav1.NotifyDrift:              "io.appthrust.capt.workspace.drift",
	infrav1.NotifyApplied:            "io.appthrust.capt.workspace.applied",
	infrav1.NotifyAddonFailed:        "io.appthrust.capt.addon.failed",
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
		group, resource, namespace, name := m.object()
		content = cloudEvent{
			SpecVersion: "1.0", ID: m.ID, Type: eventTypes[m.Event], Time: m.Time, DataContentType: "application/json", Data: m,
			Source:  fmt.Sprintf("/apis/%s/namespaces/%s/%s/%s", group, namespace, resource, name),
			Subject: namespace + "/" + name,
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
	infrav1.NotifyAddonFailed:        "Add-on failed",
}

// slackText returns a message as text of Slack. Nothing in it is a link or mentions users,
// also in systems that accept the format and in which a bare @all does.
func slackText(m message) string {
	lines := []string{m.title(), m.Text}
	for _, v := range m.Violations {
		lines = append(lines, fmt.Sprintf("• %s %s: %s", v.Action, v.Policy, v.Message))
	}
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "@\u200b").Replace(strings.Join(lines, "\n"))
}
