package captcluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// waitForControlPlane waits until the control plane of the cluster is deleted. A
// user can delete the CAPTCluster before it.
func (r *Reconciler) waitForControlPlane(ctx context.Context, s *scope) error {
	name := s.clusterName()
	if name == "" {
		return nil
	}
	var list controlplanev1.CAPTControlPlaneList
	err := r.Client.List(ctx, &list, client.InNamespace(s.infra.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: name})
	if err != nil {
		return fmt.Errorf("listing control planes: %w", err)
	}
	if len(list.Items) == 0 {
		return nil
	}
	controlPlane := &list.Items[0]
	text := fmt.Sprintf("CAPTControlPlane %s uses the infrastructure and must be deleted first", controlPlane.Name)
	if ready := conditions.Get(controlPlane, clusterv1.ReadyCondition); ready != nil && !controlPlane.DeletionTimestamp.IsZero() && ready.Message != "" {
		// Its steps have deadlines and overrides of their own.
		text += ": " + ready.Message
	}
	return fault.WaitFor(controlPlaneInterval, infrav1.WaitingForControlPlaneDeletionReason, "%s", text)
}

const (
	// controlPlaneInterval is the delay between two reports about the control plane, whose
	// changes are not watched.
	controlPlaneInterval = 30 * time.Second
	// destroyTimeout is the time after which the destruction is reported as overdue.
	destroyTimeout = time.Hour
	// maxUsers limits the number of resources in a message.
	maxUsers = 50
)

// destroy deletes the workspace, and with it the VPC or other infrastructure unless it is
// retained.
func (r *Reconciler) destroy(ctx context.Context, s *scope) error {
	err := r.Workspaces.Remove(ctx, s.infra, s.infra.Spec.RetainVPCOnDelete, s.infra.Spec.Workspace)
	if !fault.Is(err) || s.infra.Spec.RetainVPCOnDelete {
		return err
	}
	overdue := false
	if destroyed := conditions.Get(s.infra, infrav1.DestroyedCondition); destroyed != nil && destroyed.Status == metav1.ConditionFalse {
		since, findErr := r.Workspaces.DestroyingSince(ctx, s.infra, destroyed.LastTransitionTime.Time)
		if findErr != nil {
			return findErr
		}
		overdue = r.Now().Sub(since) > destroyTimeout
	}
	var users []string
	if _, stalled := fault.AsStalled(err); stalled || overdue || strings.Contains(err.Error(), dependencyViolation) {
		users = r.vpcUsers(ctx, s)
	}
	return destroyProgress(err, overdue, s.infra.Status.VPCID, users)
}

// dependencyViolation is the error of AWS for a resource that others use.
const dependencyViolation = "DependencyViolation"

// vpcUsers returns what prevents the deletion of the VPC, or nothing if it is not known.
func (r *Reconciler) vpcUsers(ctx context.Context, s *scope) []string {
	if s.infra.Status.VPCID == "" || s.infra.Spec.VPCTemplateRef == nil {
		return nil
	}
	template, err := r.Workspaces.Template(ctx, s.infra.Namespace, *s.infra.Spec.VPCTemplateRef)
	if err != nil {
		return nil
	}
	apply, err := r.Workspaces.Find(ctx, s.infra)
	if err != nil || apply == nil {
		return nil
	}
	credentials, err := r.Workspaces.OutputCredentials(ctx, apply, template)
	if err != nil {
		return nil
	}
	var vpc string
	if err := workspace.Output(apply, desired.VPCIDOutput, &vpc); credentials.Lent != nil && (err != nil || vpc != s.infra.Status.VPCID) {
		// Lent credentials do not reveal what is in another VPC of the account.
		return nil
	}
	users, err := r.Cloud.ListVPCUsers(ctx, credentials, s.infra.Spec.Region, s.infra.Status.VPCID)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("What uses the VPC could not be looked up", "cause", err.Error())
	}
	return users
}

// destroyProgress adds to a wait or stall what uses the VPC, and how to end it.
func destroyProgress(err error, overdue bool, vpc string, users []string) error {
	text := ""
	if len(users) > 0 {
		text = fmt.Sprintf(". In %s are: %s", vpc, message.List(users, maxUsers))
	}
	hint := "; to leave everything in the state of the workspace as it is, set spec.retainVpcOnDelete: true"
	if vpc != "" {
		hint = fmt.Sprintf("; to leave the VPC %s and everything else in the state of its workspace in the cloud, set spec.retainVpcOnDelete: true", vpc)
	}
	if stalled, ok := fault.AsStalled(err); ok {
		return fault.Stall(stalled.Reason, "%s%s%s", stalled.Message(), text, hint)
	}
	waiting, ok := fault.AsWaiting(err)
	switch {
	case !ok:
		return err
	case waiting.Reason == infrav1.WaitingForApprovalReason:
		// A user decides when it continues.
		return fault.WaitFor(waiting.RetryAfter, waiting.Reason, "%s%s", waiting.Message(), hint)
	case overdue:
		return fault.WaitFor(controlPlaneInterval, controlplanev1.DeadlineExceededReason, "Not destroyed after %s: %s%s%s", destroyTimeout, waiting.Message(), text, hint)
	default:
		return fault.WaitFor(waiting.RetryAfter, waiting.Reason, "%s%s", waiting.Message(), text)
	}
}

// retainsVPC reports whether a VPC remains after the deletion.
func (s *scope) retainsVPC() bool {
	return s.infra.Status.VPCID != "" && (s.infra.Spec.RetainVPCOnDelete || s.infra.Spec.ExistingVPCID != "")
}

// retainsWorkspace reports whether infrastructure other than a VPC remains.
func (s *scope) retainsWorkspace() bool {
	return s.infra.Status.WorkspaceRef != nil && s.infra.Spec.WorkspaceTemplateRef != nil && s.infra.Spec.RetainVPCOnDelete
}

func destroyedReason(s *scope) string {
	switch {
	case s.retainsVPC():
		return infrav1.VPCRetainedReason
	case s.retainsWorkspace():
		return infrav1.InfrastructureRetainedReason
	default:
		return ""
	}
}

func destroyedMessage(s *scope) string {
	switch {
	case s.retainsVPC():
		return fmt.Sprintf("VPC %s is retained", s.infra.Status.VPCID)
	case s.retainsWorkspace():
		return fmt.Sprintf("What WorkspaceTemplateApply %s created is retained", s.infra.Status.WorkspaceRef.Name)
	default:
		return ""
	}
}
