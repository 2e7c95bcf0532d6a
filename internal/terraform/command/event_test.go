package command

import (
	"io"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
)

func TestEventChange(t *testing.T) {
	resource := eventResource{Address: "a.b", Type: "a"}
	for name, tc := range map[string]struct {
		change eventChange
		want   terraform.Change
	}{
		"create":  {eventChange{Resource: resource, Action: "create", Reason: "r"}, terraform.Change{Address: "a.b", Type: "a", Action: terraform.ActionCreate, Reason: "r"}},
		"remove":  {eventChange{Resource: resource, Action: "remove"}, terraform.Change{Address: "a.b", Type: "a", Action: terraform.ActionForget}},
		"noop":    {eventChange{Resource: resource, Action: "noop"}, terraform.Change{Address: "a.b", Type: "a", Action: terraform.ActionForget}},
		"move":    {eventChange{Resource: resource, Action: "move", Previous: &eventResource{Address: "a.c"}}, terraform.Change{Address: "a.b", Type: "a", Action: terraform.ActionMove, PreviousAddress: "a.c"}},
		"no move": {eventChange{Resource: resource, Action: "update", Previous: &resource}, terraform.Change{Address: "a.b", Type: "a", Action: terraform.ActionUpdate}},
	} {
		NewWithT(t).Expect(tc.change.change()).To(Equal(tc.want), name)
	}
}

func TestPlanResult_finish(t *testing.T) {
	change := func(address string, action terraform.Action) terraform.Change {
		return terraform.Change{Address: address, Action: action}
	}
	for name, tc := range map[string]struct {
		hasChanges  bool
		changes     []terraform.Change
		outputsOnly bool
	}{
		"no changes":           {false, nil, false},
		"outputs":              {true, nil, true},
		"outputs from a read":  {true, []terraform.Change{change("data.a.b", terraform.ActionRead)}, true},
		"a resource":           {true, []terraform.Change{change("a.b", terraform.ActionCreate)}, false},
		"a resource after one": {true, []terraform.Change{change("z.z", terraform.ActionUpdate), change("data.a.b", terraform.ActionRead)}, false},
		"reads only":           {false, []terraform.Change{change("data.a.b", terraform.ActionRead)}, false},
	} {
		g := NewWithT(t)
		result := &PlanResult{HasChanges: tc.hasChanges, Drift: []terraform.Change{change("y", ""), change("x", "")}}
		result.Summary.Changes = tc.changes
		result.finish()
		g.Expect(result.Summary.OutputsOnly).To(Equal(tc.outputsOnly), name)
		g.Expect(result.Drift[0].Address).To(Equal("x"), "changes are sorted")
	}
}

// The tool is recorded with the result of a run.
func TestSession_knowsItsTool(t *testing.T) {
	g := NewWithT(t)
	for line, want := range map[string]terraform.Tool{
		`{"@level":"info","type":"version","tofu":"1.12.6"}`:      {Product: "OpenTofu", Version: "1.12.6"},
		`{"@level":"info","type":"version","terraform":"1.11.4"}`: {Product: "Terraform", Version: "1.11.4"},
		`{"@level":"info","type":"log"}`:                          {},
	} {
		session := &executor{log: newRunLog(io.Discard, nil)}
		session.handleLine(&output{}, []byte(line), func(Event) {})
		g.Expect(session.Used()).To(Equal(want), line)
	}
}
