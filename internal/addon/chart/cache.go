package chart

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// failureTTL is how long a failed fetch is cached.
const failureTTL = 5 * time.Minute

// Limits of a cache.
const (
	maxCharts = 64
	// maxMemory limits what all charts need.
	maxMemory = 32 << 20
	// maxChartsOfTenant limits the charts of a tenant.
	maxChartsOfTenant = 8
	// maxFetches limits how many charts are fetched at the same time.
	maxFetches = 8
)

// Cache caches charts by their source. A version of a chart never changes, so that it is
// kept until there are too many; failures are kept for some minutes. Concurrent requests
// for the same chart share one fetch. Each tenant fetches one chart at a time, so that a
// slow repository of one does not delay the others. The zero value is ready to use.
type Cache struct {
	// Fetcher fetches the charts.
	Fetcher Fetcher
	// Now is the clock. The default is time.Now.
	Now func() time.Time

	flight  singleflight.Group
	mutex   sync.Mutex
	cached  map[source]outcome
	tenants map[string]chan struct{}
	slots   chan struct{}
}

// outcome is the result of a fetch.
type outcome struct {
	chart *Chart
	err   error
	// tenant is the first who asked for the chart.
	tenant string
	// expires is when a failure is dropped. The chart that expires first is dropped if
	// there are too many.
	expires time.Time
}

// Fetch returns a chart as the function Fetch does. It blocks until the chart is
// fetched or ctx ends. The end of ctx does not stop a fetch, which others may
// share.
func (c *Cache) Fetch(ctx context.Context, repository, name, version string, insecure bool) (*Chart, error) {
	return c.FetchFor(ctx, "", repository, name, version, insecure)
}

// FetchFor returns a chart for a tenant.
func (c *Cache) FetchFor(ctx context.Context, tenant, repository, name, version string, insecure bool) (*Chart, error) {
	key := source{repository: repository, name: name, version: version, insecure: insecure}
	if cached, found := c.get(key); found {
		return cached.chart, cached.err
	}
	shared := c.flight.DoChan(fmt.Sprintf("%q %q %q %t", repository, name, version, insecure), func() (any, error) {
		defer c.acquire(tenant)()
		// The previous fetch may have ended since the first check.
		if cached, found := c.get(key); found {
			return cached, nil
		}
		chart, err := c.Fetcher.Fetch(context.WithoutCancel(ctx), repository, name, version, insecure)
		return c.put(key, outcome{chart: chart, err: err, tenant: tenant}), nil
	})
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for chart %s %s: %w", name, version, ctx.Err())
	case fetched := <-shared:
		result := fetched.Val.(outcome)
		return result.chart, result.err
	}
}

// acquire blocks until a tenant may fetch, and returns a function that ends the fetch.
func (c *Cache) acquire(tenant string) (release func()) {
	c.mutex.Lock()
	if c.tenants == nil {
		c.tenants, c.slots = map[string]chan struct{}{}, make(chan struct{}, maxFetches)
	}
	own := c.tenants[tenant]
	if own == nil {
		own = make(chan struct{}, 1)
		c.tenants[tenant] = own
	}
	c.mutex.Unlock()
	own <- struct{}{}
	c.slots <- struct{}{}
	return func() {
		<-c.slots
		<-own
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
	c.cached[key] = result
	if result.tenant != "" {
		c.evict(maxChartsOfTenant, func(o outcome) bool { return o.tenant == result.tenant })
	}
	c.evict(maxCharts, func(outcome) bool { return true })
	return result
}

// evict drops the oldest outcomes that match until at most limit are left and all charts
// need little enough memory. The newest one stays.
func (c *Cache) evict(limit int, matches func(outcome) bool) {
	var keys []source
	total := 0
	for key, o := range c.cached {
		total += o.memory()
		if matches(o) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b source) int { return c.cached[a].expires.Compare(c.cached[b].expires) })
	for len(keys) > 1 && (len(keys) > limit || total > maxMemory) {
		total -= c.cached[keys[0]].memory()
		delete(c.cached, keys[0])
		keys = keys[1:]
	}
}

func (o outcome) memory() int {
	if o.chart == nil {
		return 0
	}
	return o.chart.memory
}

func (c *Cache) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}
