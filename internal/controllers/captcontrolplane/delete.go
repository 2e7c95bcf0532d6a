package captcontrolplane

import (
	"context"
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
	skipVolumes       = "volumes"
	skipLeftovers     = "leftovers"
	skipDestroy       = "destroy"
)

// leaks has what is left behind if a deletion step is skipped.
var leaks = map[string]string{
	skipProtection:    "the cloud refuses to delete a protected control plane, after everything else is deleted",
	skipGuard:         "Flux may create again what is deleted",
	skipLoadBalancers: "their load balancers stay in the cloud, cost money, and may prevent the deletion of the VPC",
	skipNodes:         "their instances stay in the cloud, cost money, and may prevent the deletion of the VPC",
	skipAddons:        "what they created in the cloud stays there",
	skipMachines:      "their instances stay in the cloud",
	skipVolumes:       "their volumes stay in the cloud",
	skipLeftovers:     "they stay in the account, cost money, and may prevent the deletion of the control plane and the VPC",
	skipDestroy:       "the control plane and everything else in the state of its workspace stay in the cloud",
}

const (
	// defaultDeletionTimeout is the time after which a deletion step is reported
	// as overdue.
	defaultDeletionTimeout = 15 * time.Minute
	// deletionInterval is the delay between two checks of a deletion step. The
	// objects of the workload cluster are not watched.
	deletionInterval = 5 * time.Second
	// maxListed limits the number of objects in a message, maxLeaked that in the message of
	// a step that a user may skip: it has to name what is left behind.
	maxListed = 5
	maxLeaked = 50
)

// unreachableError is an error of the workload cluster. Errors of the management
// cluster are retried like those of every other step.
type unreachableError struct{ error }

func (e unreachableError) Unwrap() error { return e.error }

// deletionStep runs a step of the deletion, unless the user skips it. deleteAll
// deletes objects and returns those that still exist.
func (s *scope) deletionStep(name, condition string, deleteAll func() (remaining []string, err error)) error {
	if s.isReleased() {
		return nil
	}
	if skipped := s.skippedSteps(); slices.Contains(skipped, name) || name == skipGuard && slices.Contains(skipped, skipLoadBalancers) {
		s.notes[condition] = s.skippedNote(name, condition)
		return nil
	}
	remaining, err := deleteAll()
	if _, _, unreachable := isUnreachable(err); err != nil && !unreachable {
		return err
	}
	waited := s.now.Sub(s.waitingSince(condition))
	return deletionProgress(name, remaining, err, waited, s.deletionTimeout())
}

// skipHint begins the part of a message that explains how to skip a step.
const skipHint = "; to continue without them"

// skippedNote describes a step that the user skips: what remained when it was skipped, and
// what that means.
func (s *scope) skippedNote(name, condition string) note {
	previous := conditions.Get(s.controlPlane, condition)
	switch {
	case previous == nil || previous.Message == "":
		return note{controlplanev1.StepSkippedReason, "Skipped: " + leaks[name]}
	case previous.Reason == controlplanev1.StepSkippedReason:
		return note{previous.Reason, previous.Message}
	}
	remained, _, _ := strings.Cut(previous.Message, skipHint)
	return note{controlplanev1.StepSkippedReason, "Skipped: " + leaks[name] + ". Before: " + remained}
}

// deletionProgress returns nil if no object remains, and a wait otherwise. A step
// that exceeds the timeout explains how to skip it.
func deletionProgress(name string, remaining []string, unreachable error, waited, timeout time.Duration) error {
	if unreachable == nil && len(remaining) == 0 {
		return nil
	}
	overdue := waited > timeout
	listed := maxListed
	if overdue {
		listed = maxLeaked
	}
	skip := skipHint + fmt.Sprintf(", set the annotation %s: %s (%s)", controlplanev1.SkipDeletionChecksAnnotation, name, leaks[name])
	objects := message.List(remaining, listed)
	text, reason, _ := isUnreachable(unreachable)
	switch {
	case unreachable != nil && overdue:
		return fault.WaitFor(deletionInterval, controlplanev1.DeadlineExceededReason, "%s: %s%s", text, causeOf(unreachable), skip)
	case unreachable != nil:
		return fault.WaitFor(deletionInterval, reason, "%s: %s", text, causeOf(unreachable))
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

// destroyTimeouts is how many times longer than another step the destruction of the
// control plane may take.
const destroyTimeouts = 4

// destroy deletes the workspace, and with it the control plane, unless the user gives up
// its destruction.
func (r *Reconciler) destroy(ctx context.Context, s *scope) error {
	retain := slices.Contains(s.skippedSteps(), skipDestroy)
	err := r.Workspaces.Remove(ctx, s.controlPlane, retain, s.controlPlane.Spec.Workspace)
	switch {
	case retain && err == nil:
		s.notes[infrav1.DestroyedCondition] = s.skippedNote(skipDestroy, infrav1.DestroyedCondition)
	case fault.Is(err):
		r.sweepInterfaces(ctx, s)
		since, findErr := r.Workspaces.DestroyingSince(ctx, s.controlPlane, s.waitingSince(infrav1.DestroyedCondition))
		if findErr != nil {
			return findErr
		}
		return destroyProgress(err, s.now.Sub(since), destroyTimeouts*s.deletionTimeout())
	}
	return err
}

// destroyProgress adds to a wait how to end it, if it takes long.
func destroyProgress(err error, waited, timeout time.Duration) error {
	skip := fmt.Sprintf("; to leave it in the cloud, set the annotation %s: %s (%s)", controlplanev1.SkipDeletionChecksAnnotation, skipDestroy, leaks[skipDestroy])
	if stalled, ok := fault.AsStalled(err); ok {
		return fault.Stall(stalled.Reason, "%s%s", stalled.Message(), skip)
	}
	waiting, ok := fault.AsWaiting(err)
	if !ok {
		return err
	}
	if waiting.Reason == infrav1.WaitingForApprovalReason {
		// A user decides when it continues.
		return fault.WaitFor(interfacesInterval, waiting.Reason, "%s%s", waiting.Message(), skip)
	}
	if waited > timeout {
		return fault.WaitFor(interfacesInterval, controlplanev1.DeadlineExceededReason, "Not destroyed after %s: %s%s", timeout, waiting.Message(), skip)
	}
	return fault.WaitFor(interfacesInterval, waiting.Reason, "%s", waiting.Message())
}

// interfacesInterval is the delay between two lookups of network interfaces during the
// destruction.
const interfacesInterval = 30 * time.Second
