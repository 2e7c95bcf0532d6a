package operate

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrDeleted reports that an object was deleted while it was watched.
var ErrDeleted = errors.New("it was deleted")

// Watch calls observe with the current state of an object and after each change,
// until observe reports that it is done. The list is an empty list of the
// object's kind. An outage of the API server does not end it.
func Watch[T client.Object](ctx context.Context, c client.WithWatch, list client.ObjectList, key client.ObjectKey, outage Outage, observe func(T) (done bool, err error)) error {
	var uid types.UID
	lost := &lostConnection{Outage: outage}
	observeOne := func(obj T) (bool, error) {
		if uid != "" && obj.GetUID() != uid {
			// Another object has the name now.
			return false, fmt.Errorf("watching %s: %w", key.Name, ErrDeleted)
		}
		uid = obj.GetUID()
		done, err := observe(obj)
		if err != nil {
			return false, &observerError{err}
		}
		if !done {
			lost.end()
		}
		return done, nil
	}
	for {
		done, err := watchOnce(ctx, c, list, key, observeOne)
		if failed, ok := errors.AsType[*observerError](err); ok {
			return failed.error
		}
		if done || err != nil && !IsOutage(err) {
			return err
		}
		// The API server closes every watch after a while: open a new one.
		if canceled := ctx.Err(); canceled != nil {
			return fmt.Errorf("watching %s: %w", key.Name, canceled)
		}
		if err != nil && !lost.wait(ctx, err) {
			return err
		}
	}
}

// observerError is an error of the function that observes, not of the API server.
type observerError struct{ error }

// watchOnce watches until observe is done or the API server closes the watch.
func watchOnce[T client.Object](ctx context.Context, c client.WithWatch, list client.ObjectList, key client.ObjectKey, observe func(T) (bool, error)) (bool, error) {
	w, err := c.Watch(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{metav1.ObjectNameField: key.Name})
	if err != nil {
		return false, fmt.Errorf("watching %s: %w", key.Name, err)
	}
	defer w.Stop()
	// A watch sends nothing if the object was deleted before.
	if err := exists[T](ctx, c, key); err != nil {
		return false, err
	}
	for event := range w.ResultChan() {
		switch event.Type {
		case watch.Added, watch.Modified:
			obj, ok := event.Object.(T)
			if !ok {
				return false, fmt.Errorf("watching %s: got a %T", key.Name, event.Object)
			}
			if done, err := observe(obj); done || err != nil {
				return done, err
			}
		case watch.Deleted:
			return false, fmt.Errorf("watching %s: %w", key.Name, ErrDeleted)
		case watch.Error:
			if ctx.Err() != nil {
				// The decoder reports the end of the context as an event.
				return false, fmt.Errorf("watching %s: %w", key.Name, ctx.Err())
			}
			if err := apierrors.FromObject(event.Object); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
				return false, fmt.Errorf("watching %s: %w", key.Name, err)
			}
		}
	}
	return false, nil
}

// exists returns ErrDeleted if the object does not exist.
func exists[T client.Object](ctx context.Context, c client.Reader, key client.ObjectKey) error {
	obj, ok := reflect.TypeAssert[T](reflect.New(reflect.TypeFor[T]().Elem()))
	if !ok {
		return fmt.Errorf("watching %s: %s is not a pointer type", key.Name, reflect.TypeFor[T]())
	}
	err := c.Get(ctx, key, obj)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("watching %s: %w", key.Name, ErrDeleted)
	}
	if err != nil {
		return fmt.Errorf("watching %s: %w", key.Name, err)
	}
	return nil
}
