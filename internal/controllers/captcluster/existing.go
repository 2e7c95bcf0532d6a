package captcluster

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/aws"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/reconcile"
)

// existingVPC looks up the VPC of spec.existingVpcId. The result is kept until the
// spec changes: subnets that are added later must not change a running cluster.
func (r *Reconciler) existingVPC(ctx context.Context, s *scope) error {
	if s.isLookedUp() {
		s.domains = s.infra.Status.FailureDomains
		return nil
	}
	credentials, role, err := r.credentials(ctx, s)
	if err != nil {
		return err
	}
	spec := &s.infra.Spec
	found, err := r.Cloud.LookUpVPC(ctx, credentials, spec.Region, role, spec.ExistingVPCID, s.cluster.Name, spec.ExistingSubnetIDs)
	if err != nil {
		return err
	}
	s.recordVPC(found)
	return nil
}

// isLookedUp reports whether the status has the VPC and the subnets of the spec.
func (s *scope) isLookedUp() bool {
	spec, status := &s.infra.Spec, &s.infra.Status
	if status.VPCID != spec.ExistingVPCID || len(status.SubnetIDs) == 0 {
		return false
	}
	return len(spec.ExistingSubnetIDs) == 0 || slices.Equal(
		slices.Sorted(slices.Values(status.SubnetIDs)), slices.Sorted(slices.Values(spec.ExistingSubnetIDs)))
}

// recordVPC writes a VPC to the status.
func (s *scope) recordVPC(vpc aws.VPC) {
	s.infra.Status.VPCID, s.infra.Status.SubnetIDs = vpc.ID, nil
	for _, subnet := range vpc.Subnets {
		s.infra.Status.SubnetIDs = append(s.infra.Status.SubnetIDs, subnet.ID)
		s.addZones(subnet.Zone)
	}
}

// credentials returns the credentials of the runs that create the control plane in
// the VPC, and the role of its account, if it has one. They are empty for a control
// plane of another provider.
func (r *Reconciler) credentials(ctx context.Context, s *scope) (credentials *workspace.Credentials, role string, err error) {
	ref := s.cluster.Spec.ControlPlaneRef
	if !controlplanev1.IsCAPTControlPlane(ref) {
		return &workspace.Credentials{}, "", nil
	}
	controlPlane := &controlplanev1.CAPTControlPlane{}
	err = r.Client.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: ref.Name}, controlPlane)
	if err := reconcile.WaitIfNotFound(err, infrav1.WaitingForTemplateReason, "CAPTControlPlane "+ref.Name, "its credentials are required to look up the VPC"); err != nil {
		return nil, "", err
	}
	template, err := r.Workspaces.Template(ctx, s.infra.Namespace, controlPlane.Spec.WorkspaceTemplateRef)
	if err != nil {
		return nil, "", err
	}
	if credentials, err = r.Workspaces.Credentials(ctx, s.infra.Namespace, template); err != nil {
		return nil, "", err
	}
	if controlPlane.Spec.Kubeconfig != nil {
		role = controlPlane.Spec.Kubeconfig.RoleARN
	}
	return credentials, role, credentials.CheckRole(role)
}
