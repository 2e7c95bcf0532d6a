// Package eventwriter writes events. It does what client-go's broadcaster of events does
// with little memory: the broadcaster keeps each event for up to twelve minutes.
package eventwriter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// maxWaiting is how many events wait for the API server. Further ones are lost.
	maxWaiting = 5000
	// maxRecent is how many events are remembered, so that repeated ones are counted.
	maxRecent = 256
	// maxNote is the size of the text that the API server accepts, in bytes.
	maxNote = 1024
	// attempts and retryInterval are for an API server that does not answer.
	attempts, retryInterval = 5, 5 * time.Second
	// writeTimeout limits each attempt.
	writeTimeout = 10 * time.Second
	// endTimeout limits the writes after the manager was stopped.
	endTimeout = 5 * time.Second
)

// Writer writes events one after the other. It is a runnable of a manager.
type Writer struct {
	client client.Writer
	scheme *runtime.Scheme
	// instance is the reporting instance of the events.
	instance string
	now      func() time.Time
	waiting  chan *eventsv1.Event
	// recent has the names of events by their keys. Only Start uses it.
	recent *lru.Cache
}

// New returns a Writer with the kinds of a scheme.
func New(c client.Writer, scheme *runtime.Scheme, instance string, now func() time.Time) *Writer {
	return &Writer{client: c, scheme: scheme, instance: instance, now: now, waiting: make(chan *eventsv1.Event, maxWaiting), recent: lru.New(maxRecent)}
}

// Recorder returns the recorder of a controller.
func (w *Writer) Recorder(controller string) events.EventRecorder {
	return &recorder{Writer: w, controller: controller}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Writer) NeedLeaderElection() bool { return false }

// Start writes events until the context ends, and then those that wait: they say what the
// manager did last.
func (w *Writer) Start(ctx context.Context) error {
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(endTimeout, stop) })()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case event := <-w.waiting:
			w.record(writing, event)
		}
	}
	for writing.Err() == nil {
		select {
		case event := <-w.waiting:
			w.record(writing, event)
		default:
			return nil
		}
	}
	return nil
}

// record writes an event, and logs if that fails.
func (w *Writer) record(ctx context.Context, event *eventsv1.Event) {
	if err := w.write(ctx, event); err != nil {
		klog.FromContext(ctx).Error(err, "Failed to write an event", "object", klog.KRef(event.Regarding.Namespace, event.Regarding.Name), "reason", event.Reason)
	}
}

// key identifies events that are counted as one.
type key struct {
	kind, reason, action, controller, note string
	regarding, related                     corev1.ObjectReference
}

// series is an event that was written, and how often it happened.
type series struct {
	namespace, name string
	count           int32
}

// write creates an event, or counts one that exists. To count each of many repetitions
// would not tell more, so it writes every second, fourth, eighth and so on.
func (w *Writer) write(ctx context.Context, event *eventsv1.Event) error {
	k := key{event.Type, event.Reason, event.Action, event.ReportingController, event.Note, event.Regarding, corev1.ObjectReference{}}
	if event.Related != nil {
		k.related = *event.Related
	}
	if found, ok := w.recent.Get(k); ok {
		if known, ok := found.(*series); ok {
			known.count++
			if known.count&(known.count-1) != 0 {
				return nil
			}
			if err := w.retry(ctx, func(ctx context.Context) error { return w.count(ctx, known, event.EventTime) }); !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	w.recent.Add(k, &series{namespace: event.Namespace, name: event.Name, count: 1})
	return w.retry(ctx, func(ctx context.Context) error { return w.client.Create(ctx, event) })
}

// count writes how often an event has happened.
func (w *Writer) count(ctx context.Context, s *series, last metav1.MicroTime) error {
	patch, err := json.Marshal(map[string]any{"series": eventsv1.EventSeries{Count: s.count, LastObservedTime: last}})
	if err != nil {
		return fmt.Errorf("encoding the series: %w", err)
	}
	existing := &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}}
	return w.client.Patch(ctx, existing, client.RawPatch(types.MergePatchType, patch))
}

// retry repeats what fails because the API server does not answer.
func (w *Writer) retry(ctx context.Context, request func(context.Context) error) error {
	for attempt := 1; ; attempt++ {
		limited, cancel := context.WithTimeout(ctx, writeTimeout)
		err := request(limited)
		cancel()
		if answer := apierrors.APIStatus(nil); err == nil || errors.As(err, &answer) || attempt == attempts {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryInterval):
		}
	}
}

// recorder records the events of a controller.
type recorder struct {
	*Writer

	controller string
}

// Eventf implements events.EventRecorder. It does not block.
func (r *recorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	about, err := reference.GetReference(r.scheme, regarding)
	if err != nil {
		ctrl.Log.Error(err, "Failed to record an event", "reason", reason)
		return
	}
	now := r.now()
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: util.GenerateEventName(about.Name, now.UnixNano()), Namespace: about.Namespace},
		EventTime:  metav1.NewMicroTime(now), ReportingController: r.controller, ReportingInstance: r.controller + "-" + r.instance,
		Action: action, Reason: reason, Regarding: *about, Note: truncate(fmt.Sprintf(note, args...)), Type: eventType,
	}
	if event.Namespace == "" {
		event.Namespace = metav1.NamespaceDefault
	}
	if related != nil {
		// An event without it still says what happened.
		event.Related, _ = reference.GetReference(r.scheme, related)
	}
	select {
	case r.waiting <- event:
	default:
		ctrl.Log.Info("Too many events wait for the API server: one is lost", "object", klog.KRef(about.Namespace, about.Name), "reason", reason)
	}
}

// truncate returns the beginning of a text that is too long for an event.
func truncate(text string) string {
	if len(text) <= maxNote {
		return text
	}
	end := maxNote
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
