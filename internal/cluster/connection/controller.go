package connection

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/cluster/workload"
)

const (
	// probeInterval and probeTimeout are those of the probes of a connected cluster.
	probeInterval, probeTimeout = 10 * time.Second, 5 * time.Second
	// maxFailures is the number of failed probes after which a cluster is disconnected.
	maxFailures = 5
	// minRetry and maxRetry are the delays after failed attempts to connect. They double.
	minRetry, maxRetry = 2 * time.Second, 30 * time.Second
)

// accessor is what is known about a cluster. Only the controller changes it, one
// reconcile at a time.
type accessor struct {
	mu     sync.RWMutex
	open   *connection
	health clustercache.HealthCheckingState
	// attempts is the number of failed attempts to connect since the last success, and
	// failed is when the last one failed.
	attempts int
	failed   time.Time
}

// Reconcile connects to a cluster, or checks that a connected one answers.
func (c *Cache) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	cluster := &clusterv1.Cluster{}
	if err := c.options.Clusters.Get(ctx, request.NamespacedName, cluster); err != nil {
		if apierrors.IsNotFound(err) {
			c.forget(request.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, err
	}
	if c.options.Filter != nil && !c.options.Filter(cluster) {
		c.forget(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	a := c.addAccessor(request.NamespacedName)
	// The change of the status triggers the next reconcile.
	if provisioned := cluster.Status.Initialization.InfrastructureProvisioned; provisioned == nil || !*provisioned {
		return ctrl.Result{}, nil
	}
	before := a.connection()
	after := c.advance(ctx, request.NamespacedName, a)
	c.notify(ctx, cluster, a, before != a.connection())
	// Without a delay there would be no next attempt.
	return ctrl.Result{RequeueAfter: max(after, time.Millisecond)}, nil
}

// advance connects, or probes, if that is due. It returns when to do so again.
func (c *Cache) advance(ctx context.Context, cluster client.ObjectKey, a *accessor) time.Duration {
	opened := a.connection()
	if opened == nil {
		if wait := a.untilRetry(c.options.Now()); wait > 0 {
			return wait
		}
		opened, err := c.connectFirst(ctx, cluster)
		a.conclude(opened, err, c.options.Now())
		reportConnection(cluster, err == nil)
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("Failed to connect to the workload cluster", "reason", shortError(err))
			return a.untilRetry(c.options.Now())
		}
		ctrl.LoggerFrom(ctx).Info("Connected to the workload cluster")
		return probeInterval
	}
	if wait := a.untilProbe(c.options.Now()); wait > 0 {
		return wait
	}
	err := c.check(ctx, cluster, a, opened)
	failures := a.probed(err, c.options.Now())
	reportProbe(cluster, err == nil)
	if !apierrors.IsUnauthorized(err) && failures < maxFailures {
		return probeInterval
	}
	ctrl.LoggerFrom(ctx).Info("Disconnected from the workload cluster", "reason", shortError(err))
	a.disconnect(c.options.Now())
	reportConnection(cluster, false)
	if failures >= maxFailures {
		return maxRetry
	}
	return a.untilRetry(c.options.Now())
}

// connectFirst connects to a cluster that is not connected.
func (c *Cache) connectFirst(ctx context.Context, cluster client.ObjectKey) (*connection, error) {
	found, err := c.read(ctx, cluster)
	if err != nil {
		return nil, err
	}
	return c.connect(ctx, cluster, found)
}

// check checks that a connected cluster answers. It follows the kubeconfig if that has
// changed, or if the cluster rejects the credentials: the cache may be behind. The
// controllers have the previous connection until there is a new one.
func (c *Cache) check(ctx context.Context, cluster client.ObjectKey, a *accessor, opened *connection) error {
	if c.isCurrent(ctx, cluster, opened) {
		if err := opened.probe(ctx); !apierrors.IsUnauthorized(err) {
			return err
		}
	}
	found, err := c.read(ctx, cluster)
	if err != nil {
		return err
	}
	if opened.renew(found) {
		return opened.probe(ctx)
	}
	replacement, err := c.connect(ctx, cluster, found)
	if err != nil {
		return err
	}
	a.replace(replacement)
	opened.stop()
	ctrl.LoggerFrom(ctx).Info("Connected to the workload cluster with its changed kubeconfig")
	return nil
}

// notify triggers the controllers that depend on the connection.
func (c *Cache) notify(ctx context.Context, cluster *clusterv1.Cluster, a *accessor, changed bool) {
	c.sourcesMu.Lock()
	sources := slices.Clone(c.sources)
	c.sourcesMu.Unlock()
	a.mu.RLock()
	answered := a.health.LastProbeSuccessTime
	a.mu.RUnlock()
	for _, s := range sources {
		s.notify(ctx, cluster, c.options.Now(), answered, changed)
	}
}

// shortError returns an error without what the API server answered, which a user chooses.
func shortError(err error) string {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return workload.ShortError(err).Error()
	}
	return err.Error()
}

func (a *accessor) connection() *connection {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.open
}

// conclude records the result of an attempt to connect, which is also a probe.
func (a *accessor) conclude(opened *connection, err error, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.health.LastProbeTime = now
	if err != nil {
		a.health.ConsecutiveFailures++
		a.attempts++
		a.failed = now
		return
	}
	a.health.LastProbeSuccessTime, a.health.ConsecutiveFailures = now, 0
	a.open, a.attempts = opened, 0
}

// probed records the result of a probe, and returns the number of failures since the last
// success.
func (a *accessor) probed(err error, now time.Time) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.health.LastProbeTime = now
	if err != nil {
		a.health.ConsecutiveFailures++
	} else {
		a.health.LastProbeSuccessTime, a.health.ConsecutiveFailures = now, 0
	}
	return a.health.ConsecutiveFailures
}

// replace replaces the connection.
func (a *accessor) replace(opened *connection) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open = opened
}

// disconnect ends the watches and forgets the connection. The next attempt to connect is
// after a delay.
func (a *accessor) disconnect(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open != nil {
		a.open.stop()
		a.open = nil
	}
	a.attempts, a.failed = 1, now
}

// untilRetry returns how long to wait before the next attempt to connect.
func (a *accessor) untilRetry(now time.Time) time.Duration {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.attempts == 0 {
		return 0
	}
	delay := min(minRetry<<min(a.attempts-1, 10), maxRetry)
	return a.failed.Add(delay).Sub(now)
}

// untilProbe returns how long to wait before the next probe.
func (a *accessor) untilProbe(now time.Time) time.Duration {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.health.LastProbeTime.Add(probeInterval).Sub(now)
}
