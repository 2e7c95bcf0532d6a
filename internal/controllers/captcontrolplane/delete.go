package captcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// The names of deletion steps in controlplanev1.SkipDeletionChecksAnnotation.
const (
	skipProtection    = "protection"
	skipGuard         = "guard"
	skipLoadBalancers = "load-balancers"
	skipNodes         = "nodes"
	skipAddons        = "addons"
	skipMachines      = "machines"
)

// leaks has what is left behind if a deletion step is skipped.
var leaks = map[string]string{
	skipGuard:         "Flux may create again what is deleted",
	skipLoadBalancers: "their load balancers stay in the cloud, cost money, and may prevent the deletion of the VPC",
	skipNodes:         "their instances stay in the cloud, cost money, and may prevent the deletion of the VPC",
	skipAddons:        "what they created in the cloud stays there",
	skipMachines:      "their instances stay in the cloud",
}

const (
	// defaultDeletionTimeout is the time after which a deletion step is reported
	// as overdue.
	defaultDeletionTimeout = 15 * time.Minute
	// deletionInterval is the delay between two checks of a deletion step. The
	// objects of the workload cluster are not watched.
	deletionInterval = 5 * time.Second
	// maxListed limits the number of objects in a message.
	maxListed = 5
)

// unreachableError is an error of the workload cluster. Errors of the management
// cluster are retried like those of every other step.
type unreachableError struct{ error }

func (e unreachableError) Unwrap() error { return e.error }

// deletionStep runs a step of the deletion, unless the user skips it. deleteAll
// deletes objects and returns those that still exist.
func (s *scope) deletionStep(name, condition string, deleteAll func() (remaining []string, err error)) error {
	if skipped := s.skippedSteps(); s.isReleased() || slices.Contains(skipped, name) || name == skipGuard && slices.Contains(skipped, skipLoadBalancers) {
		return nil
	}
	remaining, err := deleteAll()
	if unreachable := (unreachableError{}); err != nil && !errors.As(err, &unreachable) {
		return err
	}
	waited := s.now.Sub(s.waitingSince(condition))
	return deletionProgress(name, remaining, err, waited, s.deletionTimeout())
}

// deletionProgress returns nil if no object remains, and a wait otherwise. A step
// that exceeds the timeout explains how to skip it.
func deletionProgress(name string, remaining []string, unreachable error, waited, timeout time.Duration) error {
	if unreachable == nil && len(remaining) == 0 {
		return nil
	}
	overdue := waited > timeout
	skip := fmt.Sprintf("; to continue without them, set the annotation %s: %s (%s)", controlplanev1.SkipDeletionChecksAnnotation, name, leaks[name])
	objects := message.List(remaining, maxListed)
	switch {
	case unreachable != nil && overdue:
		return fault.WaitFor(deletionInterval, controlplanev1.DeadlineExceededReason, "Workload cluster is unreachable: %w%s", unreachable, skip)
	case unreachable != nil:
		return fault.WaitFor(deletionInterval, controlplanev1.APIServerUnreachableReason, "Workload cluster is unreachable: %w", unreachable)
	case overdue:
		return fault.WaitFor(deletionInterval, controlplanev1.DeadlineExceededReason, "Not deleted after %s: %s%s", timeout, objects, skip)
	default:
		return fault.WaitFor(deletionInterval, infrav1.DeletingReason, "Waiting for the deletion of %s", objects)
	}
}

// isReleased reports whether the control plane itself is being destroyed or does
// not exist. The earlier steps are then complete, and the workload cluster can be
// unreachable.
func (s *scope) isReleased() bool {
	return s.apply == nil || !s.apply.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(s.apply, infrav1.WorkspaceHeldFinalizer)
}

// skippedSteps returns the deletion steps that the user skips.
func (s *scope) skippedSteps() []string {
	var names []string
	for name := range strings.SplitSeq(s.controlPlane.Annotations[controlplanev1.SkipDeletionChecksAnnotation], ",") {
		names = append(names, strings.TrimSpace(name))
	}
	return names
}

// waitingSince returns the time at which a step began to wait.
func (s *scope) waitingSince(condition string) time.Time {
	if c := conditions.Get(s.controlPlane, condition); c != nil && c.Status == metav1.ConditionFalse {
		return c.LastTransitionTime.Time
	}
	return s.now
}

// deletionTimeout returns the time limit of each deletion step.
func (s *scope) deletionTimeout() time.Duration {
	if c := s.controlPlane.Spec.ControlPlaneConfig; c != nil && c.Timeouts != nil && c.Timeouts.DeletionStep != nil {
		return c.Timeouts.DeletionStep.Duration
	}
	return defaultDeletionTimeout
}

// readForDeletion reads what the deletion steps share: the workspace, and the
// infrastructure, which can specify the region.
func (r *Reconciler) readForDeletion(ctx context.Context, s *scope) (err error) {
	if s.apply, err = r.Workspaces.Find(ctx, s.controlPlane); err != nil {
		return err
	}
	if s.cluster == nil || !infrav1.IsCAPTCluster(s.cluster.Spec.InfrastructureRef) {
		return nil
	}
	infra := &infrav1.CAPTCluster{}
	err = r.Client.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: s.cluster.Spec.InfrastructureRef.Name}, infra)
	if err == nil {
		s.infra = infra
	}
	return client.IgnoreNotFound(err)
}

// destroy deletes the workspace, and with it the control plane.
func (r *Reconciler) destroy(ctx context.Context, s *scope) error {
	return r.Workspaces.Remove(ctx, s.controlPlane, false)
}
