package chart

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// failureAge is how long a failure is remembered.
const failureAge = 5 * time.Minute

// Cache remembers charts by where they come from: read ones for good, because a
// version never changes, and failures for some minutes. Whoever asks for the
// same chart at the same time shares one fetch. It is ready to use as it is.
type Cache struct {
	// Now is the clock; time.Now if nil.
	Now func() time.Time

	flight singleflight.Group
	mutex  sync.Mutex
	known  map[source]outcome
}

// outcome is what a fetch ended with.
type outcome struct {
	chart *Chart
	err   error
	until time.Time
}

// Fetch returns the chart as Fetch does. It blocks until the chart is there or
// ctx ends; the fetch itself goes on for those who share it.
func (c *Cache) Fetch(ctx context.Context, repository, name, version string, insecure bool) (*Chart, error) {
	key := source{repository: repository, name: name, version: version, insecure: insecure}
	if known, found := c.recall(key); found {
		return known.chart, known.err
	}
	shared := c.flight.DoChan(fmt.Sprintf("%q %q %q %t", repository, name, version, insecure), func() (any, error) {
		// The flight before this one may have just landed.
		if known, found := c.recall(key); found {
			return known, nil
		}
		chart, err := Fetch(context.WithoutCancel(ctx), repository, name, version, insecure)
		return c.remember(key, outcome{chart: chart, err: err}), nil
	})
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for chart %s %s: %w", name, version, ctx.Err())
	case landed := <-shared:
		result := landed.Val.(outcome)
		return result.chart, result.err
	}
}

func (c *Cache) recall(key source) (outcome, bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	known, found := c.known[key]
	if found && known.err != nil && !c.now().Before(known.until) {
		delete(c.known, key)
		return outcome{}, false
	}
	return known, found
}

func (c *Cache) remember(key source, result outcome) outcome {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.known == nil {
		c.known = map[source]outcome{}
	}
	result.until = c.now().Add(failureAge)
	c.known[key] = result
	return result
}

func (c *Cache) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}
