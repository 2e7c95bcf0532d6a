package captmachineset

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/machines"
	"github.com/appthrust/capt/internal/cluster/nodes"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// recheck is when a problem that the workload cluster does not confirm is checked again.
// The machine's controller removes it in the meantime.
const recheck = 30 * time.Second

// healthy replaces machines whose node does not work. It deletes them; the next
// reconcile creates the replacements, because a machine that is being deleted does not
// count.
func (r *Reconciler) healthy(ctx context.Context, s *scope) error {
	if s.cluster != nil && !s.cluster.DeletionTimestamp.IsZero() {
		return nil
	}
	health, err := r.health(ctx, s)
	if err != nil {
		return err
	}
	switch s.nextHealthCheck = health.Next; {
	case len(health.Unhealthy) == 0:
		return nil
	case s.set.Spec.HealthCheck == nil:
		return waitAtMost(health.Next, infrav1.HealthCheckOffReason, "%s: set spec.healthCheck to replace such machines, or delete them", describe(health.Unhealthy))
	case len(health.Replace) == 0:
		return waitAtMost(health.Next, infrav1.TooManyUnhealthyReason,
			"%s. %s, and at most %d may have one for a machine to be replaced (spec.healthCheck.maxUnhealthy)", describe(health.Unhealthy), describeTroubled(health), health.Limit)
	}
	// Machines are deleted only if the API server agrees with the cache.
	if err := s.readLive(ctx); err != nil {
		return err
	}
	if health, err = r.health(ctx, s); err != nil {
		return err
	}
	replace, err := r.confirmProblems(ctx, s, health)
	if err != nil {
		return err
	}
	var replaced []machines.Machine
	for _, m := range replace {
		if err := r.deleteUnchanged(ctx, s.find(m)); err != nil {
			return err
		}
		s.markDeleting(m)
		replaced = append(replaced, m)
	}
	if len(replaced) == 0 {
		s.nextHealthCheck = recheck
		return nil
	}
	unhealthyReplaced(names(replaced)).Record(r.Recorder, s.set, nil)
	s.updateCounts()
	return waitAtMost(health.Next, infrav1.ReplacingUnhealthyReason, "%s: they are being replaced", describe(replaced))
}

// confirmProblems returns the machines to replace whose problem the workload cluster
// confirms at this moment. The status of a machine is as old as its last reconcile, which
// may have been before a restart of the manager. It waits if the cluster does not respond,
// or if its nodes have a common problem.
func (r *Reconciler) confirmProblems(ctx context.Context, s *scope, health machines.Health) ([]machines.Machine, error) {
	if len(health.Replace) == 0 {
		return nil, nil
	}
	reader, err := r.Clusters.GetUncachedClient(ctx, client.ObjectKey{Namespace: s.set.Namespace, Name: s.set.Spec.ClusterName})
	if err != nil {
		err := nodes.Unreachable(err)
		if waiting, ok := fault.AsWaiting(err); ok {
			return nil, fault.WaitFor(recheck, waiting.Reason, "%s. %s", describe(health.Unhealthy), waiting.Message())
		}
		return nil, err
	}
	members, err := nodes.List(ctx, reader)
	if err != nil {
		return nil, err
	}
	if cause := members.Failing(health.Raised); cause != "" {
		return nil, fault.WaitFor(recheck, infrav1.TooManyUnhealthyReason, "%s. %s: the cause is probably not in the machines, and none is replaced", describe(health.Unhealthy), cause)
	}
	return slices.DeleteFunc(slices.Clone(health.Replace), func(m machines.Machine) bool {
		return !s.isConfirmed(m, members)
	}), nil
}

// isConfirmed reports whether the nodes of the cluster show the problem of a machine, and
// whether it has lasted too long.
func (s *scope) isConfirmed(m machines.Machine, members nodes.Members) bool {
	machine := s.find(m)
	if m.Problem == infrav1.ProviderIDChangedReason {
		return true
	}
	node := members.Find(machine.Spec.ProviderID, machine.Status.NodeName)
	if node == nil {
		return true
	}
	since, notReady := nodes.NotReadySince(node)
	if !notReady || m.Problem == infrav1.WaitingForNodeReason {
		return false
	}
	return s.now.Sub(since) >= machines.Timeout(s.set.Spec.HealthCheck, m.Problem)
}

// waitAtMost waits for a change, or until another machine becomes unhealthy.
func waitAtMost(next time.Duration, reason, format string, args ...any) error {
	if next > 0 {
		return fault.WaitFor(next, reason, format, args...)
	}
	return fault.Wait(reason, format, args...)
}

func (r *Reconciler) health(ctx context.Context, s *scope) (machines.Health, error) {
	group, err := r.group(ctx, s)
	if err != nil {
		return machines.Health{}, err
	}
	return machines.CheckHealth(s.set.Spec.HealthCheck, s.states(), group, s.now), nil
}

// group returns the machines that the limit of the health check refers to: those of all
// sets of the deployment, or of the set alone.
func (r *Reconciler) group(ctx context.Context, s *scope) (machines.Group, error) {
	group := machines.Group{Machines: s.states(), Replicas: machines.Replicas(s.set.Spec.Replicas)}
	owner := metav1.GetControllerOf(s.set)
	if owner == nil || owner.Kind != "CAPTMachineDeployment" {
		return group, nil
	}
	var sets infrav1.CAPTMachineSetList
	if err := r.Client.List(ctx, &sets, client.InNamespace(s.set.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return group, fmt.Errorf("listing sets: %w", err)
	}
	for i := range sets.Items {
		set := &sets.Items[i]
		if !metav1.IsControlledBy(set, &metav1.ObjectMeta{UID: owner.UID}) || set.UID == s.set.UID {
			continue
		}
		var list infrav1.CAPTMachineList
		err := r.Client.List(ctx, &list, client.InNamespace(s.set.Namespace), client.MatchingFields{controllerIndex: string(set.UID)}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return group, fmt.Errorf("listing machines: %w", err)
		}
		for j := range list.Items {
			group.Machines = append(group.Machines, machines.MachineOf(&list.Items[j]))
		}
		if set.DeletionTimestamp.IsZero() {
			group.Replicas += machines.Replicas(set.Spec.Replicas)
		}
	}
	return group, nil
}

// describeTroubled describes the machines that count against the limit.
func describeTroubled(health machines.Health) string {
	text := fmt.Sprintf("%d machines have a problem", health.Troubled)
	if len(health.Deleting) > 0 {
		text += fmt.Sprintf(" (%d of them are being deleted: %s)", len(health.Deleting), message.List(names(health.Deleting), maxNames))
	}
	return text
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
