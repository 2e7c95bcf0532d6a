package web

import (
	"context"
	"errors"
	"fmt"
	"github.com/appthrust/capt/internal/client/operate"
	"io"
	"net/http"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/message"
)

// kindWatch is the watch of one kind. Kinds are watched one by one, so that one that
// cannot be listed does not hide the others.
type kindWatch struct {
	scope  *scope
	cancel context.CancelFunc
	// all is the context of the watches of all kinds.
	all context.Context
	// loaded is set when the objects of the first list are stored.
	loaded atomic.Bool
	// closed is set if the kind cannot be listed any more.
	closed atomic.Bool
	// failing is set while the API server answers requests for the kind with an error.
	failing atomic.Bool
}

// open starts the watch of a kind. It does not wait for its first list.
func (w *watch) open(ctx context.Context, s *scope, mapper meta.RESTMapper, httpClient *http.Client) *kindWatch {
	own, cancel := context.WithCancel(ctx)
	k := &kindWatch{scope: s, cancel: cancel, all: ctx}
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
	options := cache.Options{
		Scheme: w.client.Scheme(), Mapper: mapper, HTTPClient: httpClient, DefaultTransform: transform,
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
		if k.failing.CompareAndSwap(false, true) {
			go w.waitUntilListed(ctx, k, err)
		}
	default:
		w.lost(k.all, err) //nolint:contextcheck // It concerns all kinds.
	}
}

// close ends the watch of a kind that cannot be listed, and removes its objects.
func (w *watch) close(k *kindWatch, problem Denied) {
	k.closed.Store(true)
	k.cancel()
	w.objects.drop(k.scope.kind)
	w.objects.setProblem(problem)
}

// lost records that the management cluster is unreachable until it responds.
func (w *watch) lost(ctx context.Context, err error) {
	if w.objects.setLost(lostText(err)) {
		go w.waitUntilReachable(ctx)
	}
}

// waitUntilListed records why a kind cannot be listed until that works. The other kinds
// are not affected if the management cluster responds otherwise.
func (w *watch) waitUntilListed(ctx context.Context, k *kindWatch, err error) {
	defer k.failing.Store(false)
	for ctx.Err() == nil {
		if _, unreachable := operate.Allowed(ctx, w.client, reachableCheck); unreachable != nil {
			if ctx.Err() == nil {
				w.lost(k.all, unreachable) //nolint:contextcheck // It concerns all kinds.
			}
			return
		}
		w.objects.setProblem(k.scope.failed(err))
		pause(ctx, retryInterval)
		if err = w.try(ctx, k.scope); err == nil {
			if k.loaded.Load() {
				w.objects.clearProblem(k.scope.kind)
			}
			return
		}
	}
}

// try lists an object of a kind.
func (w *watch) try(ctx context.Context, s *scope) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(s.gvk.GroupVersion().WithKind(s.kind + "List"))
	options := []client.ListOption{client.Limit(1)}
	if !s.all {
		options = append(options, client.InNamespace(s.namespaces[0]))
	}
	if err := w.client.List(ctx, list, options...); err != nil {
		return fmt.Errorf("listing %s: %w", s.resource.Resource, err)
	}
	return nil
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
