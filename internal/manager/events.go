package manager

import (
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/appthrust/capt/internal/kubernetes/eventwriter"
)

// recording is a manager with recorders that need little memory.
type recording struct {
	ctrl.Manager

	events *eventwriter.Writer
}

func withEvents(mgr ctrl.Manager) (ctrl.Manager, error) {
	// The name of the host is that of the pod. Events are useful without it.
	name, _ := os.Hostname()
	created := recording{Manager: mgr, events: eventwriter.New(mgr.GetClient(), mgr.GetScheme(), name, time.Now)}
	if err := mgr.Add(created.events); err != nil {
		return nil, fmt.Errorf("adding the writer of events: %w", err)
	}
	return created, nil
}

// GetEventRecorder implements cluster.Cluster.
func (r recording) GetEventRecorder(name string) events.EventRecorder { return r.events.Recorder(name) }
