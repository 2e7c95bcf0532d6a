package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/appthrust/capt/internal/message"
)

// kindWatch is the watch of one kind. Kinds are watched one by one, so that one that
// cannot be listed does not hide the others.
type kindWatch struct {
	scope  *scope
	cancel context.CancelFunc
	// loaded is set when the objects of the first list are stored.
	loaded atomic.Bool
	// closed is set if the kind cannot be listed any more.
	closed atomic.Bool
}

// open starts the watch of a kind. It does not wait for its first list.
func (w *watch) open(ctx context.Context, s *scope, mapper meta.RESTMapper, httpClient *http.Client) *kindWatch {
	own, cancel := context.WithCancel(ctx)
	k := &kindWatch{scope: s, cancel: cancel}
	go func() {
		if err := w.load(own, k, mapper, httpClient); err != nil && own.Err() == nil {
			w.objects.setProblem(k.scope.failed(err))
		}
	}()
	return k
}

// load starts the informer of a kind, and waits until the objects of its first list
// are stored.
func (w *watch) load(ctx context.Context, k *kindWatch, mapper meta.RESTMapper, httpClient *http.Client) error {
	// The client may be the default one, which others use too.
	observing := *httpClient
	observing.Transport = observer{cmp.Or(httpClient.Transport, http.DefaultTransport), func(response *http.Response, err error) { w.observe(ctx, k, response, err) }}
	options := cache.Options{
		Scheme: w.client.Scheme(), Mapper: mapper, HTTPClient: &observing, DefaultTransform: transform,
		DefaultWatchErrorHandler: func(ctx context.Context, _ *toolscache.Reflector, err error) { w.failed(ctx, k, err) },
	}
	if !k.scope.all {
		options.DefaultNamespaces = map[string]cache.Config{}
		for _, namespace := range k.scope.namespaces {
			options.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	store, err := cache.New(rest.CopyConfig(w.options.Config), options)
	if err != nil {
		return fmt.Errorf("watching %s: %w", k.scope.kind, err)
	}
	informer, err := store.GetInformer(ctx, k.scope.object, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching %s: %w", k.scope.kind, err)
	}
	registration, err := informer.AddEventHandler(w.objects.handler(k.scope.kind))
	if err != nil {
		return fmt.Errorf("watching %s: %w", k.scope.kind, err)
	}
	go func() { _ = store.Start(ctx) }()
	select {
	case <-ctx.Done():
	case <-registration.HasSyncedChecker().Done():
		k.loaded.Store(true)
		w.objects.setLoaded(k.scope.kind)
	}
	return nil
}

// failed handles the error of the watch of a kind, which client-go opens again.
func (w *watch) failed(ctx context.Context, k *kindWatch, err error) {
	_, answered := errors.AsType[*apierrors.StatusError](err)
	switch {
	case ctx.Err() != nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
	case apierrors.IsForbidden(err):
		// The user's permissions have changed: find out which are left.
		w.close(k, *k.scope.denied())
		w.review(false)
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		// The CRD was removed.
		w.close(k, Denied{Kind: k.scope.kind, Absent: true})
	case answered && !apierrors.IsUnauthorized(err):
		w.objects.setProblem(k.scope.failed(err))
	default:
		w.objects.setLost(lostText(err))
	}
}

// observe records what a request for a kind shows: whether the management cluster responds, and
// that the kind can be listed again. The reflector of client-go reports neither a success nor, if
// it had a watch before, a connection that is refused.
func (w *watch) observe(ctx context.Context, k *kindWatch, response *http.Response, err error) {
	switch {
	case ctx.Err() != nil || err == nil && response.StatusCode == http.StatusUnauthorized:
	case utilnet.IsConnectionRefused(err):
		w.objects.setLost(lostText(err))
	case err == nil:
		w.objects.setLost("")
		if response.StatusCode == http.StatusOK && k.loaded.Load() {
			w.objects.setLoaded(k.scope.kind)
		}
	}
}

// close ends the watch of a kind that cannot be listed, and removes its objects.
func (w *watch) close(k *kindWatch, problem Denied) {
	k.closed.Store(true)
	k.cancel()
	w.objects.drop(k.scope.kind)
	w.objects.setProblem(problem)
}

// denied returns the permission that the user lacks.
func (s *scope) denied() *Denied {
	return &Denied{Kind: s.kind, Missing: "list " + s.resource.String(), Role: s.role()}
}

// failed returns the problem of a kind that cannot be listed for another reason than a
// missing permission.
func (s *scope) failed(err error) Denied {
	if status, found := errors.AsType[*apierrors.StatusError](err); found {
		// What wraps it depends on the request.
		err = status
	}
	return Denied{Kind: s.kind, Error: message.Truncate(message.OneLine(err.Error()), 2*maxMessage)}
}

// problem returns why a kind cannot be listed, or nil if it can.
func (s *scope) problem() *Denied {
	switch {
	case s.absent:
		return &Denied{Kind: s.kind, Absent: true}
	case s.err != nil:
		failed := s.failed(s.err)
		return &failed
	case !s.all && len(s.namespaces) == 0:
		return s.denied()
	}
	return nil
}
