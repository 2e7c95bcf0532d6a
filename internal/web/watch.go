package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/message"
)

// retryInterval is how often an unreachable management cluster is tried again.
const retryInterval = 2 * time.Second

// watch keeps the objects that the user may list up to date while a stream needs
// them. At rest it sends no requests.
type watch struct {
	options Options
	client  client.WithWatch
	objects *objects
	// idleAfter is how long the watches stay open after the last stream.
	idleAfter time.Duration
	// reviewAfter is the shortest time between two reviews of the user's access for new
	// streams.
	reviewAfter time.Duration
	// again requests a review of what the user may list. Its value reports whether the
	// kinds that could not be listed are tried again.
	again chan bool

	mu      sync.Mutex
	streams int
	cancel  context.CancelFunc
	// ended is closed when the last run has ended.
	ended    chan struct{}
	idle     *time.Timer
	reviewed time.Time
}

func newWatch(options Options, c client.WithWatch) *watch {
	return &watch{options: options, client: c, objects: newObjects(), idleAfter: 30 * time.Second, reviewAfter: 10 * time.Second, again: make(chan bool, 1)}
}

// acquire starts the watches unless they are open. They stay open until release is
// called as often as acquire.
func (w *watch) acquire() (release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams++
	if w.idle != nil {
		w.idle.Stop()
		w.idle = nil
	}
	switch {
	case w.cancel == nil:
		var ctx context.Context
		ctx, w.cancel = context.WithCancel(context.Background())
		previous, ended := w.ended, make(chan struct{})
		w.ended = ended
		go func() {
			defer close(ended)
			if previous != nil {
				<-previous
			}
			w.run(ctx)
		}()
	case w.objects.hasProblems() && time.Since(w.reviewed) > w.reviewAfter:
		// A user who opens a page may have been given a role.
		w.review(true)
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.streams--; w.streams == 0 {
			w.idle = time.AfterFunc(w.idleAfter, w.stopIdle)
		}
	}
}

// review requests a review of what the user may list. It does not block.
func (w *watch) review(reopen bool) {
	select {
	case w.again <- reopen:
	default:
	}
}

func (w *watch) stopIdle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.streams == 0 {
		w.stopLocked()
	}
}

// stop ends the watches.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopLocked()
}

func (w *watch) stopLocked() {
	if w.cancel != nil {
		w.cancel()
		w.cancel = nil
	}
}

// pause waits. It returns early if the context ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// run watches until the context ends. It opens and closes the watch of a kind if the
// user's permissions change.
func (w *watch) run(ctx context.Context) {
	defer w.objects.reset()
	open, reopen := map[string]*kindWatch{}, true
	for ctx.Err() == nil {
		if err := w.update(ctx, open, reopen); err != nil {
			if ctx.Err() == nil {
				w.objects.setLost(lostText(err))
			}
			pause(ctx, retryInterval)
			continue
		}
		select {
		case <-ctx.Done():
			return
		case reopen = <-w.again:
		}
		if !reopen {
			// Not at once: the roles of a user change one after the other.
			pause(ctx, retryInterval)
		}
	}
}

// update finds out what the user may list, and opens and closes watches accordingly.
// With reopen, watches that were closed because they failed are opened again.
func (w *watch) update(ctx context.Context, open map[string]*kindWatch, reopen bool) error {
	w.mu.Lock()
	w.reviewed = time.Now()
	w.mu.Unlock()
	session := Session{Context: w.options.Context, Server: w.options.Config.Host}
	review := &authenticationv1.SelfSubjectReview{}
	switch err := w.client.Create(ctx, review); {
	case err == nil:
		session.User = review.Status.UserInfo.Username
	case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
		return fmt.Errorf("reading the user: %w", err)
	}
	httpClient, err := rest.HTTPClientFor(w.options.Config)
	if err != nil {
		return fmt.Errorf("connecting to the management cluster: %w", err)
	}
	scopes, mapper, err := w.installedKinds(httpClient)
	if err != nil {
		return err
	}
	if err := w.findScopes(ctx, scopes); err != nil {
		return err
	}
	for _, s := range scopes {
		session.Namespaces = append(session.Namespaces, s.namespaces...)
	}
	slices.Sort(session.Namespaces)
	session.Namespaces = slices.Compact(session.Namespaces)
	w.objects.setSession(session, scopes)
	for _, s := range scopes {
		before := open[s.kind]
		if before != nil && before.scope.equal(s) && (!before.closed.Load() || !reopen) {
			continue
		}
		if before != nil {
			before.cancel()
			w.objects.drop(s.kind)
			delete(open, s.kind)
		}
		if problem := s.problem(); problem != nil {
			w.objects.setProblem(*problem)
			continue
		}
		open[s.kind] = w.open(ctx, s, mapper, httpClient)
	}
	return nil
}

// installedKinds returns all kinds. Those that the management cluster does not have are
// absent; those that it cannot describe now are tried again.
func (w *watch) installedKinds(httpClient *http.Client) ([]*scope, meta.RESTMapper, error) {
	mapper, err := apiutil.NewDynamicRESTMapper(w.options.Config, httpClient)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the management cluster: %w", err)
	}
	var scopes []*scope
	for _, kind := range kinds() {
		gvk, err := apiutil.GVKForObject(kind, w.client.Scheme())
		if err != nil {
			return nil, nil, fmt.Errorf("finding the kind of %T: %w", kind, err)
		}
		s := &scope{object: kind, kind: gvk.Kind}
		mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		_, s.absent = scheme.NotInstalled(err)
		switch {
		case err == nil:
			s.resource = mapping.Resource.GroupResource()
		case !s.absent:
			s.err = fmt.Errorf("finding the resource of %s: %w", gvk.Kind, err)
			time.AfterFunc(w.reviewAfter, func() { w.review(true) })
		}
		scopes = append(scopes, s)
	}
	return scopes, mapper, nil
}

// lostText returns why the management cluster cannot be read.
func lostText(err error) string {
	if apierrors.IsUnauthorized(err) {
		return "The management cluster rejected your credentials: log in again."
	}
	return message.OneLine(err.Error())
}
