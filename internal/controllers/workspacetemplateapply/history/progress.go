package history

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
)

// maxCurrent is the number of resources in the progress of the status.
const maxCurrent = 10

// SetRunStatus writes a run that has not ended into the status. The progress may
// be nil.
func (s *Status) SetRunStatus(run *runs.Run, progress *terraform.Progress) {
	started := run.Secret.CreationTimestamp
	if started.IsZero() {
		started = metav1.NewTime(s.Now)
	}
	s.Apply.Status.Run = &infrav1.RunStatus{
		ID: run.ID, Operation: infrav1.RunOperation(run.Operation()), Inputs: run.Inputs(), StartedAt: started, Request: run.Request(),
	}
	if progress == nil {
		return
	}
	s.Apply.Status.Run.Progress = shownProgress(progress)
}

// shownProgress returns a progress as the status shows it. The run wrote it: what the schema
// of the status does not allow would prevent every write of the status.
func shownProgress(progress *terraform.Progress) *infrav1.RunProgress {
	shown := &infrav1.RunProgress{Phase: message.Truncate(string(progress.Phase), runs.MaxWord), Done: count(progress.Done), Total: count(progress.Total)}
	for _, c := range firstOf(progress.Current, maxCurrent) {
		if c.Address != "" {
			shown.Current = append(shown.Current, infrav1.CurrentResource{
				Address: message.Truncate(c.Address, maxAddress), Action: message.Truncate(string(c.Action), runs.MaxWord), Since: metav1.NewTime(c.Since),
			})
		}
	}
	return shown
}
