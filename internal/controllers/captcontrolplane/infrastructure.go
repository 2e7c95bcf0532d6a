package captcontrolplane

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// infrastructure waits until the infrastructure is provisioned or, if CAPT creates it,
// until its outputs are known.
func (r *Reconciler) infrastructure(ctx context.Context, s *scope) error {
	ref := s.cluster.Spec.InfrastructureRef
	if !infrav1.IsCAPTCluster(ref) {
		if done := s.cluster.Status.Initialization.InfrastructureProvisioned; ref.IsDefined() && (done == nil || !*done) {
			return fault.Wait(controlplanev1.WaitingForInfrastructureReason, "%s %s is not provisioned yet", ref.Kind, ref.Name)
		}
		return nil
	}
	infra := &infrav1.CAPTCluster{}
	key := client.ObjectKey{Namespace: s.cluster.Namespace, Name: ref.Name}
	err := r.Client.Get(ctx, key, infra)
	if err := reconcile.WaitIfNotFound(err, controlplanev1.WaitingForInfrastructureReason, "CAPTCluster "+ref.Name, "create it, or change spec.infrastructureRef of the Cluster"); err != nil {
		return err
	}
	s.infra = infra
	if !desired.NetworkExists(infra) {
		return fault.Wait(controlplanev1.WaitingForInfrastructureReason, "CAPTCluster %s has no %s yet", ref.Name, infrastructureKind(infra))
	}
	if infra.Spec.WorkspaceTemplateRef == nil {
		return nil
	}
	created, err := r.Workspaces.Find(ctx, infra)
	s.infraOutputs = desired.SharedOutputs(created)
	return err
}

func infrastructureKind(infra *infrav1.CAPTCluster) string {
	if infra.Spec.HasVPC() {
		return "VPC"
	}
	return "infrastructure"
}

func infrastructureMessage(s *scope) string {
	if s.infra == nil || s.infra.Status.VPCID == "" {
		return ""
	}
	return "VPC " + s.infra.Status.VPCID
}

// spotRole ensures that the EC2 Spot service-linked role exists, in the account of
// kubeconfig.roleARN if it is set. It calls the cloud until that has succeeded once.
func (r *Reconciler) spotRole(ctx context.Context, s *scope) error {
	if !s.wantsSpotRole() || s.isTrue(controlplanev1.SpotRoleReadyCondition) {
		return nil
	}
	credentials, err := r.credentials(ctx, s)
	if err != nil {
		return err
	}
	role := s.kubeconfigConfig().RoleARN
	if err := credentials.CheckRole(role); err != nil {
		return err
	}
	s.spotRoleCreated, err = r.Cloud.EnsureSpotRole(ctx, credentials, s.region(), role)
	return err
}

// wantsSpotRole reports whether the role is required. By default it is for EKS.
func (s *scope) wantsSpotRole() bool {
	switch s.controlPlane.Spec.SpotServiceLinkedRole {
	case controlplanev1.SpotRoleEnsure:
		return true
	case controlplanev1.SpotRoleSkip:
		return false
	default:
		return s.kubeconfigConfig().Source == controlplanev1.KubeconfigSourceEKS
	}
}

func spotRoleReason(s *scope) string {
	if !s.wantsSpotRole() {
		return controlplanev1.SpotRoleSkippedReason
	}
	return ""
}
