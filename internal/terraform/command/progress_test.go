package command

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
)

// recorded returns the events of a recorded output of the real tool.
func recorded(t *testing.T, name string) []Event {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var events []Event
	for line := range bytes.Lines(data) {
		event, ok := parseEvent(line)
		if !ok {
			t.Fatalf("%s: not an event: %s", name, line)
		}
		events = append(events, event)
	}
	return events
}

func TestTracker(t *testing.T) {
	tests := []struct {
		name, stream string
		phase        terraform.Phase
		done, total  int
		concurrent   int
	}{
		{"creation", "apply-create.jsonl", terraform.PhaseApplying, 4, 4, 2},
		{"replacement and failure", "apply-errored.jsonl", terraform.PhaseApplying, 3, 4, 2},
		{"planning counts refreshed resources", "plan-replace.jsonl", terraform.PhasePlanning, 4, 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			tracker := NewTracker()
			tracker.Enter(test.phase, time.Time{})
			concurrent, last := 0, 0
			for _, event := range recorded(t, test.stream) {
				changed := tracker.Observe(event)
				progress := tracker.Progress()
				if changed {
					g.Expect(progress.UpdatedAt).To(Equal(event.Time))
				}
				g.Expect(progress.Done).To(BeNumerically(">=", last), "progress never decreases")
				last = progress.Done
				concurrent = max(concurrent, len(progress.Current))
				for i, current := range progress.Current {
					g.Expect(current.Since).NotTo(BeZero())
					if i > 0 {
						g.Expect(current.Since).NotTo(BeTemporally("<", progress.Current[i-1].Since), "resources are in the order in which they started")
					}
				}
			}
			progress := tracker.Progress()
			g.Expect(progress.Phase).To(Equal(test.phase))
			g.Expect(progress.Done).To(Equal(test.done))
			g.Expect(progress.Total).To(Equal(test.total))
			g.Expect(progress.Current).To(BeEmpty())
			g.Expect(concurrent).To(Equal(test.concurrent))
		})
	}
}

func TestTracker_listsResourcesInProgress(t *testing.T) {
	g := NewWithT(t)
	tracker := NewTracker()
	tracker.Enter(terraform.PhaseApplying, time.Time{})
	tracker.Expect([]terraform.Change{
		{Address: "terraform_data.a", Action: terraform.ActionCreate},
		{Address: "data.x.y", Action: terraform.ActionRead},
	})
	since := time.Date(2026, 11, 15, 2, 0, 0, 0, time.UTC)
	g.Expect(tracker.Observe(Event{Type: eventApplyStart, Time: since, Hook: &eventHook{
		Resource: eventResource{Address: "terraform_data.a"}, Action: "create",
	}})).To(BeTrue())
	g.Expect(tracker.Progress()).To(Equal(terraform.Progress{
		Phase: terraform.PhaseApplying, Total: 1, UpdatedAt: since,
		Current: []terraform.ResourceProgress{{Address: "terraform_data.a", Action: terraform.ActionCreate, Since: since}},
	}))
	g.Expect(tracker.Observe(Event{Type: "log"})).To(BeFalse())
}

func TestPlanResult_summarisesTheEventStream(t *testing.T) {
	g := NewWithT(t)
	result := &PlanResult{HasChanges: true}
	for _, event := range recorded(t, "plan-replace.jsonl") {
		result.observe(event)
	}
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
	for _, event := range recorded(t, "plan-drift.jsonl") {
		drifted.observe(event)
	}
	g.Expect(drifted.Drift).To(Equal([]terraform.Change{{Address: "local_file.f", Action: terraform.ActionDelete, Type: "local_file"}}))
}
