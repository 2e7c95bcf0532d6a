package chart

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/cache"
)

// Limits of a cache.
const (
	// maxCharts limits how many charts are kept: each may need 10 MiB, the limit of its values.
	maxCharts = 16
	// maxFetches limits how many charts are fetched at the same time.
	maxFetches = 8
	// failureTTL is how long a failed fetch is kept. A version of a chart never changes.
	failureTTL, chartTTL = 5 * time.Minute, 10 * 365 * 24 * time.Hour
)

// Cache caches charts by their source. Concurrent requests for the same chart share one fetch.
// Each tenant fetches one chart at a time, so that a slow repository of one does not delay the
// others.
type Cache struct {
	fetcher Fetcher
	kept    *cache.LRUExpireCache
	flight  singleflight.Group
	// tenants has the *sync.Mutex of each tenant.
	tenants sync.Map
	slots   chan struct{}
}

// outcome is the result of a fetch.
type outcome struct {
	chart *Chart
	err   error
}

func (o outcome) unpack() (*Chart, error) { return o.chart, o.err }

// NewCache returns an empty cache.
func NewCache(fetcher Fetcher, clock cache.Clock) *Cache {
	return &Cache{fetcher: fetcher, kept: cache.NewLRUExpireCacheWithClock(maxCharts, clock), slots: make(chan struct{}, maxFetches)}
}

// Fetch returns a chart for a single tenant, as FetchFor does.
func (c *Cache) Fetch(ctx context.Context, repository, name, version string, insecure bool) (*Chart, error) {
	return c.FetchFor(ctx, "", repository, name, version, insecure)
}

// FetchFor returns a chart for a tenant, as Fetcher does. It blocks until the chart is fetched or
// ctx ends. The end of ctx does not stop a fetch, which others may share.
func (c *Cache) FetchFor(ctx context.Context, tenant, repository, name, version string, insecure bool) (*Chart, error) {
	key := fmt.Sprintf("%q %q %q %t", repository, name, version, insecure)
	if kept, found := c.kept.Get(key); found {
		return kept.(outcome).unpack()
	}
	shared := c.flight.DoChan(key, func() (any, error) {
		tenants, _ := c.tenants.LoadOrStore(tenant, &sync.Mutex{})
		own := tenants.(*sync.Mutex)
		own.Lock()
		defer own.Unlock()
		c.slots <- struct{}{}
		defer func() { <-c.slots }()
		// The previous fetch may have ended since the first check.
		if kept, found := c.kept.Get(key); found {
			return kept, nil
		}
		chart, err := c.fetcher.Fetch(context.WithoutCancel(ctx), repository, name, version, insecure)
		ttl := chartTTL
		if err != nil {
			ttl = failureTTL
		}
		c.kept.Add(key, outcome{chart, err}, ttl)
		return outcome{chart, err}, nil
	})
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for chart %s %s: %w", name, version, ctx.Err())
	case fetched := <-shared:
		return fetched.Val.(outcome).unpack()
	}
}
