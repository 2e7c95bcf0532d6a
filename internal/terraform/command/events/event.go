// Package events reads what OpenTofu and Terraform print: events, diagnostics, and the
// progress of a run.
package events

import (
	"encoding/json"
	"time"

	"github.com/appthrust/capt/internal/terraform"
)

// Types of events that the engine handles. Others are only logged.
const (
	TypeVersion       = "version"
	TypeLog           = "log"
	TypeDiagnostic    = "diagnostic"
	TypeDrift         = "resource_drift"
	TypePlanned       = "planned_change"
	TypeSummary       = "change_summary"
	TypeApplyStart    = "apply_start"
	TypeApplyComplete = "apply_complete"
	TypeApplyErrored  = "apply_errored"
	TypeRefreshed     = "refresh_complete"
)

// Event is a line of the tool's -json output.
type Event struct {
	Type    string    `json:"type"`
	Level   string    `json:"@level"`
	Message string    `json:"@message"`
	Time    time.Time `json:"@timestamp"`

	// Tofu or Terraform is the tool's version in a version event.
	Tofu      string `json:"tofu"`
	Terraform string `json:"terraform"`

	Change     *eventChange         `json:"change"`
	Changes    *eventCounts         `json:"changes"`
	Hook       *eventHook           `json:"hook"`
	Diagnostic *eventDiagnosticBody `json:"diagnostic"`
	State      json.RawMessage      `json:"state"`
}

type eventResource struct {
	Address string `json:"addr"`
	Type    string `json:"resource_type"`
}

type eventChange struct {
	Resource  eventResource   `json:"resource"`
	Previous  *eventResource  `json:"previous_resource"`
	Action    string          `json:"action"`
	Reason    string          `json:"reason"`
	Importing json.RawMessage `json:"importing"`
}

type eventCounts struct {
	Add       int    `json:"add"`
	Change    int    `json:"change"`
	Import    int    `json:"import"`
	Remove    int    `json:"remove"`
	Forget    int    `json:"forget"`
	Operation string `json:"operation"`
}

type eventHook struct {
	Resource eventResource `json:"resource"`
	Action   string        `json:"action"`
}

type eventDiagnosticBody struct {
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Detail   string `json:"detail"`
	Address  string `json:"address"`
	Range    *struct {
		Filename string `json:"filename"`
		Start    struct {
			Line   int `json:"line"`
			Column int `json:"column"`
		} `json:"start"`
	} `json:"range"`
}

// Parse parses a line. It returns false if the line is not an event.
func Parse(line []byte) (event Event, ok bool) {
	if len(line) == 0 || line[0] != '{' {
		return Event{}, false
	}
	if err := json.Unmarshal(line, &event); err != nil || event.Level == "" {
		return Event{}, false
	}
	return event, true
}

// Convert returns the change as CAPT reports it.
func (c *eventChange) Convert() terraform.Change {
	change := terraform.Change{
		Address: c.Resource.Address,
		Type:    c.Resource.Type,
		Action:  action(c.Action),
		Reason:  c.Reason,
	}
	if c.Previous != nil && c.Previous.Address != c.Resource.Address {
		change.PreviousAddress = c.Previous.Address
	}
	return change
}

// action converts an action of the event stream. A planned change with the action
// noop that is neither a move nor an import forgets the old object and creates a
// new one.
func action(name string) terraform.Action {
	switch name {
	case "remove", "noop":
		return terraform.ActionForget
	default:
		return terraform.Action(name)
	}
}
