package events

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
		event, ok := Parse(line)
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
	g.Expect(tracker.Observe(Event{Type: TypeApplyStart, Time: since, Hook: &eventHook{
		Resource: eventResource{Address: "terraform_data.a"}, Action: "create",
	}})).To(BeTrue())
	g.Expect(tracker.Progress()).To(Equal(terraform.Progress{
		Phase: terraform.PhaseApplying, Total: 1, UpdatedAt: since,
		Current: []terraform.ResourceProgress{{Address: "terraform_data.a", Action: terraform.ActionCreate, Since: since}},
	}))
	g.Expect(tracker.Observe(Event{Type: "log"})).To(BeFalse())
}
