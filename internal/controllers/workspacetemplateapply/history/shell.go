package history

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// Limits of what a status says about shells: their number, and the size of texts in bytes.
const (
	MaxPastShells  = 10
	maxShellHost   = 253
	maxShellReason = 1024
)

// RecordShell records that a user opens or closes a shell with the state.
func RecordShell(recorder events.EventRecorder, s *runs.Workspace) {
	apply, now := s.Apply, s.Now
	opened, status := s.OpenShell(), &apply.Status
	switch last := status.Shell; {
	case opened != nil && (last == nil || last.ID != opened.Spec.Shell.ID):
		status.PastShells = pastShells(status.PastShells, last, now)
		status.Shell = &infrav1.ShellStatus{
			ID: opened.Spec.Shell.ID, OpenedAt: metav1.NewTime(now),
			By:     message.Truncate(message.OneLine(opened.Spec.RequestedBy), MaxUserName),
			Host:   message.Truncate(message.OneLine(opened.Spec.Shell.Host), maxShellHost),
			Reason: message.Truncate(message.OneLine(opened.Spec.Shell.Reason), maxShellReason),
		}
		shellOpened(status.Shell).Record(recorder, apply, nil)
	case opened == nil && last.Open():
		last.ClosedAt = new(metav1.NewTime(now))
		shellClosed(last).Record(recorder, apply, nil)
	}
}

// pastShells adds a shell to those of the past. One that was replaced without being closed
// has ended by then.
func pastShells(past []infrav1.ShellStatus, last *infrav1.ShellStatus, now time.Time) []infrav1.ShellStatus {
	if last == nil {
		return past
	}
	ended := *last.DeepCopy()
	if ended.Open() {
		ended.ClosedAt = new(metav1.NewTime(now))
	}
	past = append([]infrav1.ShellStatus{ended}, past...)
	return past[:min(len(past), MaxPastShells)]
}

// ShellFault waits until the user has ended the shell.
func ShellFault(apply *infrav1.WorkspaceTemplateApply) error {
	status := apply.Status.Shell
	if !status.Open() {
		return nil
	}
	return fault.Wait(infrav1.ShellOpenReason, "%s. A run waits until it is closed. If it does not exist any more, end it with captctl unlock, or delete its WorkspaceOperation", shellText(status))
}

// shellText says who has a shell.
func shellText(status *infrav1.ShellStatus) string {
	text := shellUser(status) + " has shell " + status.ID + " with the state"
	if status.Host != "" {
		text += " on " + status.Host
	}
	return text + " since " + status.OpenedAt.UTC().Format(time.RFC3339)
}

func shellUser(status *infrav1.ShellStatus) string { return cmp.Or(status.By, "A user") }
