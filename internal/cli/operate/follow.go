package operate

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrGone is an object that was deleted while it was followed.
var ErrGone = errors.New("it was deleted meanwhile")

// Follow calls look with an object as it is and after each change, until look is
// done. The list is an empty one of the object's kind.
func Follow[T client.Object](ctx context.Context, c client.WithWatch, list client.ObjectList, key client.ObjectKey, look func(T) (done bool, err error)) error {
	for {
		done, err := followOnce(ctx, c, list, key, look)
		if done || err != nil {
			return err
		}
		// The server ends a watch from time to time: begin anew.
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("following %s: %w", key.Name, err)
		}
	}
}

func followOnce[T client.Object](ctx context.Context, c client.WithWatch, list client.ObjectList, key client.ObjectKey, look func(T) (bool, error)) (bool, error) {
	w, err := c.Watch(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{metav1.ObjectNameField: key.Name})
	if err != nil {
		return false, fmt.Errorf("following %s: %w", key.Name, err)
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		switch event.Type {
		case watch.Added, watch.Modified:
			obj, ok := event.Object.(T)
			if !ok {
				return false, fmt.Errorf("following %s: got a %T", key.Name, event.Object)
			}
			if done, err := look(obj); done || err != nil {
				return done, err
			}
		case watch.Deleted:
			return false, fmt.Errorf("following %s: %w", key.Name, ErrGone)
		case watch.Error:
			if err := apierrors.FromObject(event.Object); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
				return false, fmt.Errorf("following %s: %w", key.Name, err)
			}
		}
	}
	return false, nil
}
