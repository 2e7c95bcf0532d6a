package captaddon

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// maxListed is the number of clusters or objects in a message.
const maxListed = 3

// install reconciles the add-on in each cluster.
func (r *Reconciler) install(ctx context.Context, s *scope) error {
	budget := s.rolloutBudget()
	err := s.each(func(in *installation) error { return r.installOne(ctx, s, in, &budget) })
	r.publish(s)
	if err != nil {
		return err
	}
	return s.summarize()
}

// each calls do for each cluster, and returns all errors.
func (s *scope) each(do func(*installation) error) error {
	var errs []error
	for _, in := range s.installations {
		if err := do(in); err != nil {
			errs = append(errs, fmt.Errorf("cluster %s: %w", in.name, err))
		}
	}
	return errors.Join(errs...)
}

// rolloutBudget returns how many clusters that have the add-on may start to
// change. A cluster uses the budget until it is ready with the present content.
func (s *scope) rolloutBudget() int {
	clusters, changing := 0, 0
	for _, in := range s.installations {
		if !in.selected {
			continue
		}
		clusters++
		if s.usesBudget(in) {
			changing++
		}
	}
	return render.RolloutBudget(s.addon.Spec.Rollout, clusters, changing)
}

// usesBudget reports whether a cluster is changing, so that others wait for it. A
// paused cluster does not change. Others wait for a cluster that cannot be
// reached only until the timeout: the change may be what broke it, or it may
// never return.
func (s *scope) usesBudget(in *installation) bool {
	changing := in.rendered != nil && in.previous.AppliedHash != "" && in.requestedHash() == in.rendered.Hash && !in.wasReady()
	if !changing || in.paused() {
		return false
	}
	if in.connected() {
		return true
	}
	left := s.timeout() - s.now.Sub(render.RequestedAt(in.secret))
	if left <= 0 {
		return false
	}
	s.requeue(left)
	return true
}

func (r *Reconciler) installOne(ctx context.Context, s *scope, in *installation, budget *int) error {
	if !in.selected {
		return r.remove(ctx, s, in)
	}
	in.current.UnreadySince = metav1.Time{}
	if err := r.advance(ctx, s, in, budget); err != nil {
		return in.reportFault(s, err)
	}
	in.current.Attempts = 0
	in.report(s, true, clusterv1.ReadyReason, "")
	return nil
}

// advance runs the stages of a cluster and returns the fault of the first that
// has not passed.
func (r *Reconciler) advance(ctx context.Context, s *scope, in *installation, budget *int) error {
	if err := in.checkCluster(); err != nil {
		return err
	}
	if s.needsRequest(in) {
		if err := s.checkOrder(in, budget); err != nil && !in.lacksOnlyResourceSet() {
			return err
		}
		in.current.Attempts = 0
		if err := r.request(ctx, s, in, render.Round(in.secret)); err != nil {
			return err
		}
	}
	if answers, err := r.checkAnswers(ctx, s, in); !answers {
		return err
	}
	if err := r.ensureApplied(ctx, s, in); err != nil {
		return r.retry(ctx, s, in, err)
	}
	if !s.keepsFirstContent(in) {
		in.current.AppliedHash = in.rendered.Hash
	}
	if err := r.observe(ctx, s, in); err != nil {
		return r.retry(ctx, s, in, err)
	}
	return r.prune(ctx, s, in)
}

// checkAnswers reports whether the cluster answered when it was asked last. If not, each request
// to it would take until its timeout, while all other clusters wait. The error is nil if the
// add-on was ready and nothing has changed: such a cluster may answer again soon.
func (r *Reconciler) checkAnswers(ctx context.Context, s *scope, in *installation) (answers bool, err error) {
	health := r.Clusters.GetHealthCheckingState(ctx, in.key(s))
	if health.ConsecutiveFailures == 0 || health.LastProbeSuccessTime.IsZero() {
		return true, nil
	}
	if err := checkProbes(health, s.now); err != nil {
		return false, err
	}
	if in.wasReady() && in.previous.AppliedHash == in.rendered.Hash {
		s.requeue(probeInterval)
		return false, nil
	}
	return false, fault.WaitFor(probeInterval, addonsv1.WaitingForControlPlaneReason, "Workload cluster does not answer")
}

// lacksOnlyResourceSet reports whether the cluster has the content already: only its
// ClusterResourceSet was deleted by a user. Nothing changes then.
func (in *installation) lacksOnlyResourceSet() bool {
	return in.resourceSet == nil && in.secret != nil && in.rendered.Hash == in.secret.Annotations[addonsv1.HashAnnotation] && in.previous.AppliedHash == in.rendered.Hash
}

// checkCluster returns a fault unless the cluster accepts the add-on and the
// add-on rendered for it.
func (in *installation) checkCluster() error {
	switch {
	case in.paused():
		return fault.Wait(addonsv1.ClusterPausedReason, "Cluster is paused")
	case !in.initialized():
		return fault.Wait(addonsv1.WaitingForControlPlaneReason, "Control plane is not initialized yet")
	case in.renderErr != nil && !fault.Is(in.renderErr):
		// The Rendered step returned the error and retries it.
		reason := in.previous.Reason
		if reason == "" {
			reason = addonsv1.ApplyingReason
		}
		return fault.Wait(reason, "%s", in.previous.Message)
	default:
		return in.renderErr
	}
}

// keepsFirstContent reports whether the strategy forbids further changes of what
// was applied.
func (s *scope) keepsFirstContent(in *installation) bool {
	return s.addon.Spec.Strategy == addonsv1.StrategyApplyOnce && in.previous.AppliedHash != ""
}

// needsRequest reports whether Cluster API has yet to be given the rendered
// content.
func (s *scope) needsRequest(in *installation) bool {
	return !s.keepsFirstContent(in) && in.requestedHash() != in.rendered.Hash
}

// checkOrder returns a fault unless the cluster may change now: its dependencies
// are ready, Cluster API is connected, and the rollout budget is not used up. It
// takes the cluster's share of the budget.
func (s *scope) checkOrder(in *installation, budget *int) error {
	if cycle := render.DependencyCycle(s.addon.Name, s.addons); cycle != "" {
		return fault.Stall(addonsv1.DependencyCycleReason, "Add-ons depend on each other (%s): remove one dependsOn", cycle)
	}
	for _, d := range s.addon.Spec.DependsOn {
		if err := s.checkDependency(in, d.Name); err != nil {
			return err
		}
	}
	if !in.connected() {
		// A request before that fails, and Cluster API backs off longer each time.
		return fault.Wait(addonsv1.WaitingForControlPlaneReason, "Cluster API is not connected to the cluster yet")
	}
	if in.previous.AppliedHash == "" {
		return nil
	}
	if *budget <= 0 {
		return fault.Wait(addonsv1.WaitingForRolloutReason, "Waiting for other clusters to become ready: rollout.maxUnavailable limits how many change at once")
	}
	*budget--
	return nil
}

// checkDependency returns a fault unless another add-on is ready in the cluster.
func (s *scope) checkDependency(in *installation, name string) error {
	for i := range s.addons {
		if s.addons[i].Name != name {
			continue
		}
		status := s.addons[i].StatusIn(in.name)
		switch {
		case status == nil:
			return fault.Wait(addonsv1.WaitingForDependencyReason, "Add-on %s does not select this cluster: add the labels of its clusterSelector to the Cluster", name)
		case ptr.Deref(status.Ready, false):
			return nil
		}
		return fault.Wait(addonsv1.WaitingForDependencyReason, "Add-on %s is not ready: %s", name, strings.TrimSpace(status.Reason+" "+status.Message))
	}
	return fault.Wait(addonsv1.WaitingForDependencyReason, "Add-on %s does not exist: create it, or remove it from dependsOn", name)
}

// publish sets the status of the add-on, and updates events, metrics and cached
// renderings.
func (r *Reconciler) publish(s *scope) {
	s.updateStatus()
	for _, in := range s.installations {
		if in.removed {
			r.renderings.Delete(in.renderingKey(s))
			continue
		}
		if event, changed := in.event(); changed {
			event.Record(r.Recorder, s.addon, in.cluster)
			countFailure(s, in)
		}
	}
	updateMetrics(s)
}

// updateStatus sets the clusters, their number and the handled trigger in the
// status of the add-on.
func (s *scope) updateStatus() {
	var matched, ready int32
	clusters := make([]addonsv1.ClusterAddonStatus, 0, len(s.installations))
	handled := s.addon.Annotations[addonsv1.TriggerAnnotation]
	for _, in := range s.installations {
		if in.removed {
			continue
		}
		if in.selected {
			matched++
		}
		if in.selected && in.ready() {
			ready++
		}
		if in.rendered != nil && in.requestedHash() != in.rendered.Hash {
			handled = s.addon.Status.HandledTrigger
		}
		clusters = append(clusters, in.current)
	}
	status := &s.addon.Status
	status.Clusters, status.Matched, status.Ready, status.HandledTrigger = clusters, &matched, &ready, handled
}

// summarize returns a fault that names clusters where the add-on is not ready,
// or nil.
func (s *scope) summarize() error {
	var waiting []string
	for _, in := range s.installations {
		if in.removed || in.selected && in.ready() {
			continue
		}
		waiting = append(waiting, fmt.Sprintf("%s: %s %s", in.name, in.current.Reason, in.current.Message))
	}
	if len(waiting) == 0 {
		return nil
	}
	return s.wait(addonsv1.SomeClustersNotReadyReason, fmt.Sprintf("Ready in %d of %d clusters; %s",
		*s.addon.Status.Ready, *s.addon.Status.Matched, message.Sentences(waiting, maxListed)))
}

func installedMessage(s *scope) string {
	if *s.addon.Status.Matched == 0 {
		return "No Cluster matches clusterSelector"
	}
	return fmt.Sprintf("Ready in %d clusters", *s.addon.Status.Ready)
}
