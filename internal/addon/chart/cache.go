package chart

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// failureTTL is how long a failed fetch is cached.
const failureTTL = 5 * time.Minute

// maxCharts is how many charts a cache keeps.
const maxCharts = 64

// Cache caches charts by their source. A version of a chart never changes, so that it is
// kept until there are too many; failures are kept for some minutes. Concurrent requests
// for the same chart share one fetch, and only one chart is fetched at a time, because
// the memory of the manager is limited. The zero value is ready to use.
type Cache struct {
	// Now is the clock. The default is time.Now.
	Now func() time.Time

	flight   singleflight.Group
	fetching sync.Mutex
	mutex    sync.Mutex
	cached   map[source]outcome
}

// outcome is the result of a fetch.
type outcome struct {
	chart *Chart
	err   error
	// expires is when a failure is dropped. The chart that expires first is dropped if
	// there are too many.
	expires time.Time
}

// Fetch returns a chart as the function Fetch does. It blocks until the chart is
// fetched or ctx ends. The end of ctx does not stop a fetch, which others may
// share.
func (c *Cache) Fetch(ctx context.Context, repository, name, version string, insecure bool) (*Chart, error) {
	key := source{repository: repository, name: name, version: version, insecure: insecure}
	if cached, found := c.get(key); found {
		return cached.chart, cached.err
	}
	shared := c.flight.DoChan(fmt.Sprintf("%q %q %q %t", repository, name, version, insecure), func() (any, error) {
		// The previous fetch may have ended since the first check.
		if cached, found := c.get(key); found {
			return cached, nil
		}
		c.fetching.Lock()
		defer c.fetching.Unlock()
		chart, err := Fetch(context.WithoutCancel(ctx), repository, name, version, insecure)
		return c.put(key, outcome{chart: chart, err: err}), nil
	})
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for chart %s %s: %w", name, version, ctx.Err())
	case fetched := <-shared:
		result := fetched.Val.(outcome)
		return result.chart, result.err
	}
}

func (c *Cache) get(key source) (outcome, bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	cached, found := c.cached[key]
	if found && cached.err != nil && !c.now().Before(cached.expires) {
		delete(c.cached, key)
		return outcome{}, false
	}
	return cached, found
}

func (c *Cache) put(key source, result outcome) outcome {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.cached == nil {
		c.cached = map[source]outcome{}
	}
	result.expires = c.now().Add(failureTTL)
	if len(c.cached) >= maxCharts {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(c.cached)), func(a, b source) int { return c.cached[a].expires.Compare(c.cached[b].expires) })
		delete(c.cached, oldest)
	}
	c.cached[key] = result
	return result
}

func (c *Cache) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}
