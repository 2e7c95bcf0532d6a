package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
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

	mu      sync.Mutex
	streams int
	cancel  context.CancelFunc
	idle    *time.Timer
}

func newWatch(options Options, c client.WithWatch) *watch {
	return &watch{options: options, client: c, objects: newObjects(), idleAfter: 30 * time.Second}
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
	if w.cancel == nil {
		var ctx context.Context
		ctx, w.cancel = context.WithCancel(context.Background())
		go w.run(ctx)
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.streams--; w.streams == 0 {
			w.idle = time.AfterFunc(w.idleAfter, w.stopIdle)
		}
	}
}

func (w *watch) stopIdle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.streams == 0 && w.cancel != nil {
		w.cancel()
		w.cancel = nil
	}
}

// stop ends the watches.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel != nil {
		w.cancel()
		w.cancel = nil
	}
}

// run watches until the context ends. It starts again if the user's permissions
// change.
func (w *watch) run(ctx context.Context) {
	for ctx.Err() == nil {
		attempt, cancel := context.WithCancel(ctx)
		restart := make(chan struct{}, 1)
		if err := w.start(attempt, restart); err != nil && ctx.Err() == nil {
			w.objects.setLost(lostText(err))
			select {
			case <-ctx.Done():
			case <-time.After(retryInterval):
			}
		} else {
			select {
			case <-ctx.Done():
			case <-restart:
				// Not at once: what was refused may be refused again.
				select {
				case <-ctx.Done():
				case <-time.After(retryInterval):
				}
			}
		}
		cancel()
		w.objects.reset()
	}
}

// start opens the watches of all kinds that are installed and that the user may list.
func (w *watch) start(ctx context.Context, restart chan<- struct{}) error {
	session := Session{Context: w.options.Context, Server: w.options.Config.Host}
	review := &authenticationv1.SelfSubjectReview{}
	switch err := w.client.Create(ctx, review); {
	case err == nil:
		session.User = review.Status.UserInfo.Username
	case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
		return fmt.Errorf("reading the user: %w", err)
	}
	scopes, mapper, err := w.installedKinds()
	if err != nil {
		return err
	}
	if err := w.findScopes(ctx, scopes); err != nil {
		return err
	}
	session.Denied = deniedKinds(scopes)
	for _, s := range scopes {
		for _, namespace := range s.namespaces {
			if !slices.Contains(session.Namespaces, namespace) {
				session.Namespaces = append(session.Namespaces, namespace)
			}
		}
	}
	slices.Sort(session.Namespaces)
	w.objects.setSession(session)
	return w.open(ctx, scopes, mapper, restart)
}

// installedKinds returns the kinds that the management cluster has.
func (w *watch) installedKinds() ([]*scope, meta.RESTMapper, error) {
	httpClient, err := rest.HTTPClientFor(w.options.Config)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the management cluster: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(w.options.Config, httpClient)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the management cluster: %w", err)
	}
	var scopes []*scope
	for _, obj := range kinds() {
		gvk, err := apiutil.GVKForObject(obj, w.client.Scheme())
		if err != nil {
			return nil, nil, fmt.Errorf("finding the kind of %T: %w", obj, err)
		}
		mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if _, missing := scheme.NotInstalled(err); missing {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("finding the resource of %s: %w", gvk.Kind, err)
		}
		scopes = append(scopes, &scope{object: obj, kind: gvk.Kind, resource: mapping.Resource.GroupResource()})
	}
	return scopes, mapper, nil
}

// open starts an informer for each kind, and waits until their first lists are
// complete.
func (w *watch) open(ctx context.Context, scopes []*scope, mapper meta.RESTMapper, restart chan<- struct{}) error {
	selectors := map[client.Object]cache.ByObject{}
	for _, s := range scopes {
		if !s.all && !s.denied() {
			namespaces := map[string]cache.Config{}
			for _, namespace := range s.namespaces {
				namespaces[namespace] = cache.Config{}
			}
			selectors[s.object] = cache.ByObject{Namespaces: namespaces}
		}
	}
	store, err := cache.New(w.options.Config, cache.Options{
		Scheme: w.client.Scheme(), Mapper: mapper, ByObject: selectors, DefaultTransform: trim,
		DefaultWatchErrorHandler: func(ctx context.Context, _ *toolscache.Reflector, err error) { w.watchFailed(ctx, err, restart) },
	})
	if err != nil {
		return fmt.Errorf("watching the management cluster: %w", err)
	}
	go func() { _ = store.Start(ctx) }()
	handler := w.objects.handler()
	for _, s := range scopes {
		if s.denied() {
			continue
		}
		informer, err := store.GetInformer(ctx, s.object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %s: %w", s.kind, err)
		}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watching %s: %w", s.kind, err)
		}
	}
	go func() {
		// The handlers have run for everything in the first lists a moment later;
		// streams send what they add as changes.
		if store.WaitForCacheSync(ctx) {
			w.objects.setSynced()
		}
	}()
	return nil
}

// watchFailed handles the error of a watch, which client-go opens again.
func (w *watch) watchFailed(ctx context.Context, err error, restart chan<- struct{}) {
	switch {
	case ctx.Err() != nil, errors.Is(err, io.EOF), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
	case apierrors.IsForbidden(err):
		// The user's permissions have changed: find out which are left.
		select {
		case restart <- struct{}{}:
		default:
		}
	case w.objects.setLost(lostText(err)):
		go w.waitUntilReachable(ctx)
	}
}

// waitUntilReachable tries to reach the management cluster until it responds.
func (w *watch) waitUntilReachable(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryInterval):
		}
		// Users without any role may do this.
		_, err := allowed(ctx, w.client, reachableCheck)
		if err == nil {
			w.objects.setLost("")
			return
		}
		w.objects.setLost(lostText(err))
	}
}

// lostText returns why the management cluster cannot be read.
func lostText(err error) string {
	if apierrors.IsUnauthorized(err) {
		return "The management cluster rejected your credentials: log in again."
	}
	return message.OneLine(err.Error())
}

// trim removes what no view shows from an object before it is stored.
func trim(obj any) (any, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return obj, nil //nolint:nilerr // A tombstone has no metadata.
	}
	accessor.SetManagedFields(nil)
	delete(accessor.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
	return obj, nil
}
