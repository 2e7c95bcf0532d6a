package captcluster

import (
	"context"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
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
	if len(list.Items) > 0 {
		return fault.Wait(infrav1.WaitingForControlPlaneDeletionReason, "CAPTControlPlane %s uses the VPC and must be deleted first", list.Items[0].Name)
	}
	return nil
}

// destroy deletes the workspace of the VPC, and with it the VPC unless it is
// retained.
func (r *Reconciler) destroy(ctx context.Context, s *scope) error {
	return r.Workspaces.Remove(ctx, s.infra, s.infra.Spec.RetainVPCOnDelete)
}

// retainsVPC reports whether a VPC remains after the deletion.
func (s *scope) retainsVPC() bool {
	return s.infra.Status.VPCID != "" && (s.infra.Spec.RetainVPCOnDelete || s.infra.Spec.ExistingVPCID != "")
}

func destroyedReason(s *scope) string {
	if s.retainsVPC() {
		return infrav1.VPCRetainedReason
	}
	return ""
}

func destroyedMessage(s *scope) string {
	if s.retainsVPC() {
		return fmt.Sprintf("VPC %s is retained", s.infra.Status.VPCID)
	}
	return ""
}
