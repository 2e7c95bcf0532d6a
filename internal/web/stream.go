package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// coalesce is the shortest time between two parts of a stream: changes come in
	// bursts.
	coalesce = 200 * time.Millisecond
	// pingInterval is how often a stream sends something, so that proxies do not close it,
	// and the page notices that it is lost.
	pingInterval = 25 * time.Second
	// maxStreams limits the streams of a user.
	maxStreams = 100
	// batch is the number of rows in one event.
	batch = 200
)

// subscription collects what changed since a stream last sent something. It holds
// one entry for each changed object, however often that changed, so a client that
// reads slowly costs no memory.
type subscription struct {
	wants func(topic) bool
	wake  chan struct{}

	mu      sync.Mutex
	changed map[topic]struct{}
}

// mark records a change. It does not block.
func (s *subscription) mark(t topic) {
	s.mu.Lock()
	s.changed[t] = struct{}{}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take returns the changes and forgets them.
func (s *subscription) take() map[topic]struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.changed
	s.changed = map[topic]struct{}{}
	return changed
}

// mark informs the streams about a change.
func (o *objects) mark(t topic) {
	for s := range o.streams {
		if t.kind == topicSession || t.kind == topicReset || s.wants(t) {
			s.mark(t)
		}
	}
}

// subscribe returns a subscription that starts with everything, or nil if there are
// too many.
func (o *objects) subscribe(wants func(topic) bool) *subscription {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.streams) >= maxStreams {
		return nil
	}
	s := &subscription{wants: wants, wake: make(chan struct{}, 1), changed: map[topic]struct{}{}}
	s.mark(topic{kind: topicSession})
	s.mark(topic{kind: topicReset})
	o.streams[s] = struct{}{}
	return s
}

func (o *objects) unsubscribe(s *subscription) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.streams, s)
}

// event is a part of a stream.
type event struct {
	name string
	data any
}

// view is what a stream shows.
type view interface {
	// wants reports whether a topic can change the view.
	wants(t topic) bool
	// events returns what changed: everything if all is set, else what belongs to the
	// changed topics. The caller holds the lock of the objects.
	events(o *objects, changed map[topic]struct{}, all bool) []event
}

// newView returns the view of a name such as fleet or cluster/NAMESPACE/NAME.
func newView(ctx context.Context, user *identity, name string) (view, bool) {
	kind, rest, _ := strings.Cut(name, "/")
	namespace, object, found := strings.Cut(rest, "/")
	id := key{Namespace: namespace, Name: object}
	named := found && namespace != "" && object != "" && !strings.Contains(object, "/")
	switch {
	case name == "fleet":
		return newFleetView(), true
	case name == "workspaces":
		return newWorkspacesView(), true
	case name == "addons":
		return &addonsView{}, true
	case name == "events":
		return &eventsView{}, true
	case kind == "cluster" && named:
		return newClusterView(ctx, user, id), true
	case kind == "workspace" && named:
		return &workspaceView{id: id}, true
	case kind == "addon" && named:
		return &addonsView{only: &id}, true
	}
	return nil, false
}

func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	user := identityOf(r)
	v, found := newView(ctx, user, r.URL.Query().Get("view"))
	if !found {
		fail(w, http.StatusNotFound, Problem{Error: "There is no such view."})
		return
	}
	objects := user.watch.objects
	changes := objects.subscribe(v.wants)
	if changes == nil {
		failBusy(w, "Too many tabs are open: close some.")
		return
	}
	defer objects.unsubscribe(changes)
	defer user.watch.acquire()() //nolint:contextcheck // All streams share the watches.
	if live, ok := v.(*clusterView); ok {
		go live.watchNodes(ctx, changes)
	}
	out := s.newEventWriter(w)
	defer out.keepAlive(s.pingInterval)()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changes.wake:
		}
		for _, e := range objects.collect(v, changes) {
			if out.send(e.name, e.data) != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(coalesce):
		}
	}
}

// collect returns the events for the changes of a subscription. Before the objects of
// the first lists are stored, only the session is sent, with the progress.
func (o *objects) collect(v view, changes *subscription) []event {
	o.mu.Lock()
	defer o.mu.Unlock()
	changed := changes.take()
	var events []event
	if _, found := changed[topic{kind: topicSession}]; found && (o.session.Server != "" || o.session.Lost != "") {
		events = append(events, event{"session", o.session})
	}
	if !o.synced {
		return events
	}
	_, all := changed[topic{kind: topicReset}]
	if all {
		events = append(events, event{"reset", nil})
	}
	events = append(events, v.events(o, changed, all)...)
	if all {
		events = append(events, event{"synced", nil})
	}
	return events
}

// eventWriter writes Server-Sent Events.
type eventWriter struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

func (s *Server) newEventWriter(w http.ResponseWriter) *eventWriter {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	return &eventWriter{w: w, control: http.NewResponseController(w), timeout: s.writeTimeout}
}

// keepAlive sends something regularly until the returned function is called.
func (e *eventWriter) keepAlive(interval time.Duration) (stop func()) {
	stopped, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-stopped:
				return
			case <-ticker.C:
				if e.send("ping", nil) != nil {
					return
				}
			}
		}
	}()
	return func() {
		close(stopped)
		<-ended
	}
}

// send writes an event.
func (e *eventWriter) send(name string, data any) error {
	content, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encoding event %s: %w", name, err)
	}
	return e.write("event: " + name + "\ndata: " + string(content) + "\n\n")
}

// write writes a part of the stream. It fails if the client does not read it in
// time.
func (e *eventWriter) write(text string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = e.control.SetWriteDeadline(time.Now().Add(e.timeout))
	if _, err := e.w.Write([]byte(text)); err != nil {
		return fmt.Errorf("writing to the client: %w", err)
	}
	if err := e.control.Flush(); err != nil {
		return fmt.Errorf("writing to the client: %w", err)
	}
	return nil
}
