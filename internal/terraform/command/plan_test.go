package command

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/events"
)

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
		session.handleLine(&output{}, []byte(line), func(events.Event) {})
		g.Expect(session.Used()).To(Equal(want), line)
	}
}

func TestPlanResult_summarisesTheEventStream(t *testing.T) {
	g := NewWithT(t)
	observe := func(result *PlanResult, stream string) {
		content, err := os.ReadFile(filepath.Join("events", "testdata", stream))
		g.Expect(err).NotTo(HaveOccurred())
		for line := range bytes.Lines(content) {
			event, ok := events.Parse(line)
			g.Expect(ok).To(BeTrue(), string(line))
			result.observe(event)
		}
	}
	result := &PlanResult{HasChanges: true}
	observe(result, "plan-replace.jsonl")
	result.finish()
	g.Expect(result.Summary).To(Equal(terraform.PlanSummary{
		Add: 2, Change: 1, Destroy: 2,
		Changes: []terraform.Change{
			{Address: "terraform_data.fails[0]", Action: terraform.ActionCreate, Type: "terraform_data"},
			{Address: "terraform_data.gone[1]", Action: terraform.ActionDelete, Type: "terraform_data", Reason: "delete_because_count_index"},
			{Address: "terraform_data.kept", Action: terraform.ActionUpdate, Type: "terraform_data"},
			{Address: "terraform_data.replaced", Action: terraform.ActionReplace, Type: "terraform_data", Reason: "cannot_update"},
		},
	}))

	drifted := &PlanResult{}
	observe(drifted, "plan-drift.jsonl")
	g.Expect(drifted.Drift).To(Equal([]terraform.Change{{Address: "local_file.f", Action: terraform.ActionDelete, Type: "local_file"}}))
}
