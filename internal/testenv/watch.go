package testenv

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Watch reports every change of the objects of a list from now on. An API server ends a watch
// after some minutes, or when it is busy: this one then continues where it was.
func (e *Environment) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	c, err := client.NewWithWatch(e.Config, client.Options{Scheme: e.Scheme})
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	if err := c.List(ctx, list, opts...); err != nil {
		return nil, fmt.Errorf("listing before a watch: %w", err)
	}
	watchFrom := func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		return c.Watch(ctx, list, append(slices.Clip(opts), &client.ListOptions{Raw: &options})...)
	}
	w, err := toolswatch.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{WatchFuncWithContext: watchFrom})
	if err != nil {
		return nil, fmt.Errorf("watching: %w", err)
	}
	return w, nil
}
