package captaddon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

const (
	defaultTimeout = 15 * time.Minute
	// settle is how long what was just applied may be missing in the caches.
	settle = 10 * time.Second
	// mostNamed is how many clusters a message names.
	mostNamed = 3
)

// install brings every cluster one step further, and tells where they stand.
func (r *Reconciler) install(ctx context.Context, s *scope) error {
	turns := s.turns()
	var errs []error
	for _, st := range s.standings {
		if err := r.advance(ctx, s, st, &turns); err != nil {
			errs = append(errs, fmt.Errorf("cluster %s: %w", st.name, err))
		}
	}
	r.conclude(s)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return s.summary()
}

// turns is how many clusters that have the add-on may begin to change. A cluster
// that has not come through the present change holds its turn.
func (s *scope) turns() int {
	fleet, changing := 0, 0
	for _, st := range s.standings {
		if !st.matched {
			continue
		}
		fleet++
		if st.rendered != nil && st.was.AppliedHash != "" && st.asked() == st.rendered.Hash && (st.was.Ready == nil || !*st.was.Ready) {
			changing++
		}
	}
	return render.RolloutBudget(s.addon.Spec.Rollout, fleet, changing)
}

// advance brings one cluster one step further.
func (r *Reconciler) advance(ctx context.Context, s *scope, st *standing, turns *int) error {
	if !st.matched {
		return r.leave(ctx, s, st)
	}
	st.is.UnreadySince = metav1.Time{}
	if err := r.reach(ctx, s, st, turns); err != nil {
		return st.explain(s, err)
	}
	st.is.Attempts = 0
	st.report(s, true, clusterv1.ReadyReason, "")
	return nil
}

// explain turns a fault into where the cluster stands. Other errors are
// returned.
func (st *standing) explain(s *scope, err error) error {
	if waiting, found := fault.AsWaiting(err); found {
		if waiting.RetryAfter > 0 {
			s.lookAgain(waiting.RetryAfter)
		}
		st.report(s, false, waiting.Reason, waiting.Message())
		return nil
	}
	if stalled, found := fault.AsStalled(err); found {
		st.report(s, false, stalled.Reason, stalled.Message())
		return nil
	}
	return err
}

// reach goes through the stages of a cluster and ends with a fault at the one
// that it has not passed.
func (r *Reconciler) reach(ctx context.Context, s *scope, st *standing, turns *int) error {
	switch {
	case st.cluster.Spec.Paused != nil && *st.cluster.Spec.Paused:
		return fault.Wait(addonsv1.ClusterPausedReason, "The cluster is paused")
	case !initialized(st):
		return fault.Wait(addonsv1.WaitingForControlPlaneReason, "The control plane takes no requests yet")
	case st.fault != nil:
		if !isFault(st.fault) {
			// It was returned already and is tried again.
			return fault.Wait(st.reasonBefore(), "%s", st.was.Message)
		}
		return st.fault
	}
	once := s.addon.Spec.Strategy == addonsv1.StrategyApplyOnce && st.was.AppliedHash != ""
	if !once && st.asked() != st.rendered.Hash {
		if err := r.mayChange(s, st, turns); err != nil {
			return err
		}
		st.is.Attempts = 0
		if err := r.ask(ctx, s, st, render.Round(st.secret)); err != nil {
			return err
		}
	}
	if err := r.applied(ctx, s, st); err != nil {
		return r.again(ctx, s, st, err)
	}
	if !once {
		st.is.AppliedHash = st.rendered.Hash
	}
	if err := r.observe(ctx, s, st); err != nil {
		return r.again(ctx, s, st, err)
	}
	return r.prune(ctx, s, st)
}

func (st *standing) reasonBefore() string {
	if st.was.Reason == "" {
		return addonsv1.ApplyingReason
	}
	return st.was.Reason
}

// mayChange reports whether the cluster may change now: what the add-on depends
// on is ready there, and not too many others are changing.
func (r *Reconciler) mayChange(s *scope, st *standing, turns *int) error {
	if ring := render.DependencyCycle(s.addon.Name, s.all); ring != "" {
		return fault.Stall(addonsv1.DependencyCycleReason, "Add-ons depend on each other: %s: remove one dependsOn", ring)
	}
	for _, d := range s.addon.Spec.DependsOn {
		if err := s.dependency(st, d.Name); err != nil {
			return err
		}
	}
	if !conditions.IsTrue(st.cluster, clusterv1.ClusterRemoteConnectionProbeCondition) {
		// Asked earlier, it would try in vain and wait ever longer in between.
		return fault.Wait(addonsv1.WaitingForControlPlaneReason, "Cluster API has no connection to the cluster yet")
	}
	if st.was.AppliedHash == "" {
		return nil
	}
	if *turns <= 0 {
		return fault.Wait(addonsv1.WaitingForRolloutReason, "Other clusters change first: rollout.maxUnavailable of them at a time")
	}
	*turns--
	return nil
}

// dependency waits for another add-on in the same cluster.
func (s *scope) dependency(st *standing, name string) error {
	for i := range s.all {
		if s.all[i].Name != name {
			continue
		}
		for _, c := range s.all[i].Status.Clusters {
			switch {
			case c.Name != st.name:
			case c.Ready != nil && *c.Ready:
				return nil
			default:
				return fault.Wait(addonsv1.WaitingForDependencyReason, "Add-on %s is not ready: %s", name, strings.TrimSpace(c.Reason+" "+c.Message))
			}
		}
		return fault.Wait(addonsv1.WaitingForDependencyReason, "Add-on %s does not select this cluster: give the Cluster the labels of its clusterSelector", name)
	}
	return fault.Wait(addonsv1.WaitingForDependencyReason, "Add-on %s does not exist: create it, or remove it from dependsOn", name)
}

// again deals with what keeps a cluster from being ready: what was applied and
// is missing is applied again at once, what failed after a while. The limit and
// the waits are those of the retry policy.
func (r *Reconciler) again(ctx context.Context, s *scope, st *standing, err error) error {
	var p *problem
	if !errors.As(err, &p) {
		return err
	}
	askedAt := render.RequestedAt(st.secret)
	since := s.now.Sub(st.began(s, askedAt))
	st.is.UnreadySince = metav1.NewTime(s.now.Add(-since).Truncate(time.Second))
	limit := defaultTimeout
	if s.addon.Spec.Timeout != nil {
		limit = s.addon.Spec.Timeout.Duration
	}
	switch {
	case (p.drifted || p.reason == addonsv1.ApplyFailedReason) && s.now.Sub(askedAt) < settle:
		// Caches lag, and Cluster API itself tries again what comes before its kind.
		return fault.WaitFor(settle-s.now.Sub(askedAt), addonsv1.ApplyingReason, "Applied a moment ago: %s", p.message)
	case p.drifted && s.addon.Spec.Strategy == addonsv1.StrategyApplyOnce:
		return fault.Wait(addonsv1.NotReadyReason, "%s; strategy ApplyOnce does not bring it back", p.message)
	case !p.drifted && !p.failed && since < limit:
		return fault.WaitFor(limit-since, p.reason, "%s", p.message)
	case !p.drifted && !p.failed:
		p.reason, p.message = addonsv1.TimedOutReason, fmt.Sprintf("Not ready after %s: %s", limit, p.message)
	}
	wait, more := render.Backoff(s.addon.Spec.Retry, st.is.Attempts)
	if p.drifted && st.is.Attempts == 0 {
		wait, more = 0, true
	}
	if !more {
		return fault.Stall(p.reason, "%s; not tried again after %d attempts: change the add-on or set the annotation %s to a new value",
			p.message, st.is.Attempts, addonsv1.TriggerAnnotation)
	}
	if due := askedAt.Add(wait); s.now.Before(due) {
		return fault.WaitFor(due.Sub(s.now), p.reason, "%s; tried again in %s (attempt %d)", p.message, wait, st.is.Attempts+1)
	}
	st.is.Attempts++
	if err := r.ask(ctx, s, st, render.Round(st.secret)+1); err != nil {
		return err
	}
	return fault.WaitFor(settle, p.reason, "%s; applied again", p.message)
}

// began is since when the cluster has had no reason to be not ready but itself:
// the reasons may change meanwhile, and a new application begins anew.
func (st *standing) began(s *scope, askedAt time.Time) time.Time {
	began := s.now
	if !st.was.UnreadySince.IsZero() {
		began = st.was.UnreadySince.Time
	}
	if askedAt.After(began) {
		began = askedAt
	}
	return began
}

// problem is why a cluster is not ready although everything was asked for.
type problem struct {
	reason, message string
	// drifted tells that something that was applied is gone or changed, failed
	// that waiting alone does not help.
	drifted, failed bool
}

// Error returns the message.
func (p *problem) Error() string { return p.message }

// conclude writes where the clusters stand.
func (r *Reconciler) conclude(s *scope) {
	var matched, ready int32
	all := make([]addonsv1.ClusterAddonStatus, 0, len(s.standings))
	handled := s.addon.Annotations[addonsv1.TriggerAnnotation]
	for _, st := range s.standings {
		if st.gone {
			r.drop(s, st.name)
			continue
		}
		if st.matched {
			matched++
		}
		if st.matched && st.ready() {
			ready++
		}
		if st.rendered != nil && st.asked() != st.rendered.Hash {
			handled = s.addon.Status.HandledTrigger
		}
		all = append(all, st.is)
		r.tell(s, st)
	}
	s.addon.Status.Clusters, s.addon.Status.Matched, s.addon.Status.Ready = all, &matched, &ready
	s.addon.Status.HandledTrigger = handled
	count(s)
}

// summary is the condition of all clusters together.
func (s *scope) summary() error {
	var waiting []string
	for _, st := range s.standings {
		if st.gone || st.matched && st.ready() {
			continue
		}
		if len(waiting) < mostNamed {
			waiting = append(waiting, fmt.Sprintf("%s: %s %s", st.name, st.is.Reason, st.is.Message))
		} else if len(waiting) == mostNamed {
			waiting = append(waiting, "…")
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	text := fmt.Sprintf("Ready in %d of %d clusters; %s", *s.addon.Status.Ready, *s.addon.Status.Matched, strings.Join(waiting, "; "))
	if s.again > 0 {
		return fault.WaitFor(s.again, addonsv1.SomeClustersNotReadyReason, "%s", text)
	}
	return fault.Wait(addonsv1.SomeClustersNotReadyReason, "%s", text)
}

func installedMessage(s *scope) string {
	if *s.addon.Status.Matched == 0 {
		return "No cluster has the labels of clusterSelector"
	}
	return fmt.Sprintf("Ready in %d clusters", *s.addon.Status.Ready)
}
