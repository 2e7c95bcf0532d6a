package connection

import (
	"context"
	"sync"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// clusterSource triggers a controller for clusters.
type clusterSource struct {
	// failures are how long a cluster may not answer before the controller is triggered.
	failures []time.Duration
	events   chan event.GenericEvent

	mu sync.Mutex
	// sent is when the controller was last triggered for a cluster.
	sent map[client.ObjectKey]time.Time
}

func newClusterSource(opts []clustercache.GetClusterSourceOption) *clusterSource {
	s := &clusterSource{events: make(chan event.GenericEvent), sent: map[client.ObjectKey]time.Time{}}
	for _, opt := range opts {
		if failure, ok := opt.(clustercache.WatchForProbeFailure); ok {
			s.failures = append(s.failures, time.Duration(failure))
		}
	}
	return s
}

func (s *clusterSource) source(requests func(context.Context, client.Object) []ctrl.Request) source.Source {
	return source.Channel(s.events, handler.EnqueueRequestsFromMapFunc(requests))
}

// notify triggers the controller if the connection changed, or if the cluster has not
// answered for too long. It blocks until the controller has started.
func (s *clusterSource) notify(ctx context.Context, cluster *clusterv1.Cluster, now, answered time.Time, changed bool) {
	key := client.ObjectKeyFromObject(cluster)
	s.mu.Lock()
	last := s.sent[key]
	s.mu.Unlock()
	for _, failure := range s.failures {
		due := answered.Add(failure)
		changed = changed || last.Before(due) && due.Before(now)
	}
	if !changed {
		return
	}
	select {
	case s.events <- event.GenericEvent{Object: cluster}:
	case <-ctx.Done():
		return
	}
	s.mu.Lock()
	s.sent[key] = now
	s.mu.Unlock()
}

func (s *clusterSource) forget(cluster client.ObjectKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sent, cluster)
}
