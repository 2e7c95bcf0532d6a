package captcontrolplane

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// protectionVariable is the variable that lets the cloud refuse the deletion of a
// control plane.
const protectionVariable = "deletion_protection"

// unprotect stalls while the control plane is protected against deletion: the cloud
// would refuse it only after everything else is deleted. If the user has removed the
// protection from the spec, unprotect removes it in the cloud.
func (r *Reconciler) unprotect(ctx context.Context, s *scope) error {
	if s.isReleased() || slices.Contains(s.skippedSteps(), skipProtection) {
		return nil
	}
	if err := r.readTemplate(ctx, s); err != nil && !fault.Is(err) {
		return err
	}
	if isProtected(s.template, s.controlPlane.Spec.Variables) {
		return fault.Stall(controlplanev1.DeletionProtectedReason,
			"The control plane is protected against deletion, and nothing has been deleted: set spec.variables.%s to false to delete the cluster", protectionVariable)
	}
	if !s.apply.DeletionTimestamp.IsZero() {
		// No run can remove the protection any more.
		return nil
	}
	if isProtected(s.template, s.apply.Spec.Variables) {
		changed := s.apply.DeepCopy()
		if changed.Spec.Variables == nil {
			changed.Spec.Variables = map[string]infrav1.Value{}
		}
		changed.Spec.Variables[protectionVariable] = infrav1.Value{Raw: []byte("false")}
		if err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(s.apply, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("removing the protection in workspace %s: %w", s.apply.Name, err)
		}
		return fault.WaitFor(deletionInterval, controlplanev1.RemovingProtectionReason, "A run of WorkspaceTemplateApply %s removes the protection against deletion", s.apply.Name)
	}
	guarded := conditions.Get(s.controlPlane, controlplanev1.GuardedCondition)
	outcome := workspace.Outcome(s.apply)
	_, named := s.apply.Spec.Variables[protectionVariable]
	removing := guarded != nil && (guarded.Reason == controlplanev1.RemovingProtectionReason ||
		named && guarded.Reason == controlplanev1.DeadlineExceededReason)
	if outcome == nil || !removing && !changesProtection(s.apply) {
		return nil
	}
	reason := controlplanev1.RemovingProtectionReason
	if s.now.Sub(s.waitingSince(controlplanev1.GuardedCondition)) > s.deletionTimeout() {
		reason = controlplanev1.DeadlineExceededReason
	}
	return fault.WaitFor(deletionInterval, reason,
		"The run that removes the protection against deletion has not succeeded yet: %w; if the protection is removed already, set the annotation %s: %s (otherwise %s)", outcome, controlplanev1.SkipDeletionChecksAnnotation, skipProtection, leaks[skipProtection])
}

// changesProtection reports whether a workspace that names the protection has a run: the
// user may have removed the protection just before the Cluster was deleted.
func changesProtection(apply *infrav1.WorkspaceTemplateApply) bool {
	if _, named := apply.Spec.Variables[protectionVariable]; !named {
		return false
	}
	applied := conditions.Get(apply, infrav1.AppliedCondition)
	return apply.Status.Run != nil || apply.Status.ObservedGeneration != apply.Generation ||
		applied != nil && applied.Reason == infrav1.QueuedReason
}

// isProtected reports whether a template protects the control plane with variables.
// The template may be nil.
func isProtected(template *infrav1.WorkspaceTemplate, variables map[string]infrav1.Value) bool {
	if value, set := variables[protectionVariable]; set {
		return value.String() == "true"
	}
	if template == nil {
		return false
	}
	values, err := workspace.NewValues(template, template.Namespace)
	return err == nil && values.Effective(protectionVariable) == "true"
}

// forgetDeletion removes the conditions of an earlier deletion of the Cluster that was
// interrupted. Machines would not wait for the next one.
func forgetDeletion(_ context.Context, s *scope) error {
	for _, condition := range []string{
		controlplanev1.GuardedCondition, controlplanev1.LoadBalancersGoneCondition, controlplanev1.VolumesGoneCondition,
		controlplanev1.NodesGoneCondition, controlplanev1.AddonsGoneCondition, controlplanev1.MachinesGoneCondition,
		controlplanev1.LeftoversGoneCondition,
	} {
		conditions.Delete(s.controlPlane, condition)
	}
	return nil
}
