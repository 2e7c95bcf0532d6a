package captmachineset

import (
	"context"
	"fmt"
	"slices"
	"time"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/machines"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// healthy replaces machines whose node does not work. It deletes them; the next
// reconcile creates the replacements, because a machine that is being deleted does not
// count.
func (r *Reconciler) healthy(ctx context.Context, s *scope) error {
	if s.cluster != nil && !s.cluster.DeletionTimestamp.IsZero() {
		return nil
	}
	health := s.health()
	switch s.nextHealthCheck = health.Next; {
	case len(health.Unhealthy) == 0:
		return nil
	case s.set.Spec.HealthCheck == nil:
		return waitAtMost(health.Next, infrav1.HealthCheckOffReason, "%s: set spec.healthCheck to replace such machines, or delete them", describe(health.Unhealthy))
	case len(health.Replace) == 0:
		return waitAtMost(health.Next, infrav1.TooManyUnhealthyReason,
			"%s. %d machines have a problem, and at most %d may have one for a machine to be replaced (spec.healthCheck.maxUnhealthy)", describe(health.Unhealthy), health.Troubled, health.Limit)
	}
	// Machines are deleted only if the API server agrees with the cache.
	if err := r.readLiveMachines(ctx, s); err != nil {
		return err
	}
	health = s.health()
	var replaced []machines.Machine
	for _, m := range health.Replace {
		if err := r.deleteUnchanged(ctx, s.find(m)); err != nil {
			return err
		}
		s.markDeleting(m)
		replaced = append(replaced, m)
	}
	if len(replaced) == 0 {
		return nil
	}
	unhealthyReplaced(names(replaced)).Record(r.Recorder, s.set, nil)
	s.updateCounts()
	return waitAtMost(health.Next, infrav1.ReplacingUnhealthyReason, "%s: they are being replaced", describe(replaced))
}

// waitAtMost waits for a change, or until another machine becomes unhealthy.
func waitAtMost(next time.Duration, reason, format string, args ...any) error {
	if next > 0 {
		return fault.WaitFor(next, reason, format, args...)
	}
	return fault.Wait(reason, format, args...)
}

func (s *scope) health() machines.Health {
	return machines.CheckHealth(s.set.Spec.HealthCheck, s.states(), machines.Replicas(s.set.Spec.Replicas), s.now)
}

func describe(unhealthy []machines.Machine) string {
	return fmt.Sprintf("%d machines are unhealthy: %s", len(unhealthy), message.List(names(unhealthy), maxNames))
}

// names returns the sorted names of machines with their problems.
func names(all []machines.Machine) []string {
	var texts []string
	for _, m := range all {
		texts = append(texts, fmt.Sprintf("%s (%s)", m.Name, m.Problem))
	}
	slices.Sort(texts)
	return texts
}
