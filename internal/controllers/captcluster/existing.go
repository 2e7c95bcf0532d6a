package captcluster

import (
	"cmp"
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/aws"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/reconcile"
)

// existingVPC looks up the VPC of spec.existingVpcId. The result is kept until the
// spec changes: subnets that are added later, or that have other tags, must not change a
// running cluster. An annotation keeps it without the status.
func (r *Reconciler) existingVPC(ctx context.Context, s *scope) error {
	if s.isLookedUp() {
		s.recordSubnets()
		s.domains = s.infra.Status.FailureDomains
		return nil
	}
	credentials, role, err := r.credentials(ctx, s)
	if err != nil {
		return err
	}
	spec := &s.infra.Spec
	chosen := s.chosenSubnets()
	found, err := r.Cloud.LookUpVPC(ctx, credentials, spec.Region, role, spec.ExistingVPCID, s.cluster.Name, chosen)
	if err != nil {
		return err
	}
	// Another order could change what the modules create in them.
	slices.SortStableFunc(found.Subnets, func(a, b aws.Subnet) int {
		return cmp.Compare(slices.Index(chosen, a.ID), slices.Index(chosen, b.ID))
	})
	s.recordVPC(found)
	return nil
}

// chosenSubnets returns the subnets that the cluster has to use: those of the spec, or those that
// an earlier lookup chose. It returns none before the first lookup.
func (s *scope) chosenSubnets() []string {
	if chosen := s.infra.Spec.ExistingSubnetIDs; len(chosen) > 0 {
		return chosen
	}
	if recorded := s.infra.Annotations[infrav1.SubnetsAnnotation]; recorded != "" {
		return strings.Split(recorded, ",")
	}
	return nil
}

// recordSubnets writes the subnets to the annotation.
func (s *scope) recordSubnets() {
	metav1.SetMetaDataAnnotation(&s.infra.ObjectMeta, infrav1.SubnetsAnnotation, strings.Join(s.infra.Status.SubnetIDs, ","))
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

// recordVPC writes a VPC to the status, and its subnets to the annotation, too.
func (s *scope) recordVPC(vpc aws.VPC) {
	s.infra.Status.VPCID, s.infra.Status.SubnetIDs = vpc.ID, nil
	for _, subnet := range vpc.Subnets {
		s.infra.Status.SubnetIDs = append(s.infra.Status.SubnetIDs, subnet.ID)
		s.addZones(subnet.Zone)
	}
	s.recordSubnets()
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
