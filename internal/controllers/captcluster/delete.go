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

// controlPlaneGone waits until nothing of the cluster is in the VPC any more,
// whoever asked for the VPC to go first.
func (r *Reconciler) controlPlaneGone(ctx context.Context, s *scope) error {
	name := s.infra.Labels[clusterv1.ClusterNameLabel]
	if s.cluster != nil {
		name = s.cluster.Name
	}
	if name == "" {
		return nil
	}
	var list controlplanev1.CAPTControlPlaneList
	err := r.Client.List(ctx, &list, client.InNamespace(s.infra.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: name})
	if err != nil {
		return fmt.Errorf("listing control planes: %w", err)
	}
	if len(list.Items) > 0 {
		return fault.Wait(infrav1.WaitingForControlPlaneDeletionReason, "CAPTControlPlane %s is in the VPC and has to go first", list.Items[0].Name)
	}
	return nil
}

// destroy takes the VPC away, or leaves it.
func (r *Reconciler) destroy(ctx context.Context, s *scope) error {
	return r.Workspaces.Remove(ctx, s.infra, s.infra.Spec.RetainVPCOnDelete)
}

// retained tells whether a VPC is left in place.
func (s *scope) retained() bool {
	return s.infra.Status.VPCID != "" && (s.infra.Spec.RetainVPCOnDelete || s.infra.Spec.ExistingVPCID != "")
}

func destroyedReason(s *scope) string {
	if s.retained() {
		return infrav1.VPCRetainedReason
	}
	return ""
}

func destroyedMessage(s *scope) string {
	if s.retained() {
		return fmt.Sprintf("VPC %s is left in place", s.infra.Status.VPCID)
	}
	return ""
}
