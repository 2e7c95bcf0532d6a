package captcluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// subnetOutputs are the outputs that may hold the subnets of nodes, in order.
var subnetOutputs = []string{"private_subnets", "private_subnet_ids", "subnet_ids"}

// vpc makes the VPC, or looks at the one that is there.
func (r *Reconciler) vpc(ctx context.Context, s *scope) error {
	if s.infra.Spec.ExistingVPCID != "" {
		return r.existing(ctx, s)
	}
	template, err := r.Workspaces.Template(ctx, s.infra.Namespace, *s.infra.Spec.VPCTemplateRef)
	if err != nil {
		return err
	}
	wanted, err := (&desired.Network{Cluster: s.cluster, Infra: s.infra}).Workspace(template)
	if err != nil {
		return err
	}
	apply, err := r.Workspaces.Ensure(ctx, s.infra, wanted)
	if err != nil {
		return err
	}
	s.infra.Status.WorkspaceRef = &infrav1.LocalReference{Name: apply.Name}
	if err := s.read(apply); err != nil {
		return err
	}
	if err := workspace.Outcome(apply); err != nil {
		return err
	}
	if s.infra.Status.VPCID == "" {
		return fault.Stall(infrav1.VPCNotFoundReason, "Output vpc_id of WorkspaceTemplateApply %s is empty", apply.Name)
	}
	return nil
}

// read takes over what the outputs tell. They stay known while a change of the
// VPC is under way.
func (s *scope) read(apply *infrav1.WorkspaceTemplateApply) error {
	if !workspace.Applied(apply) {
		return nil
	}
	status := &s.infra.Status
	if err := workspace.Output(apply, desired.VPCIDOutput, &status.VPCID); err != nil {
		return err
	}
	for _, name := range subnetOutputs {
		var subnets []string
		if err := workspace.Output(apply, name, &subnets); err != nil {
			return err
		}
		if len(subnets) > 0 {
			status.SubnetIDs = subnets
			break
		}
	}
	return workspace.Output(apply, "azs", &s.zones)
}

// existing looks up the VPC that is there. What was found stays as it is until
// the spec changes: subnets that come later do not change a running cluster.
func (r *Reconciler) existing(ctx context.Context, s *scope) error {
	spec, status := &s.infra.Spec, &s.infra.Status
	if status.VPCID == spec.ExistingVPCID && len(status.SubnetIDs) > 0 && s.looked() {
		for _, domain := range status.FailureDomains {
			s.zones = append(s.zones, domain.Name)
		}
		return nil
	}
	credentials, err := r.credentials(ctx, s)
	if err != nil {
		return err
	}
	found, err := r.Cloud.LookUpVPC(ctx, credentials, spec.Region, spec.ExistingVPCID, s.cluster.Name, spec.ExistingSubnetIDs)
	if err != nil {
		return err
	}
	status.VPCID, status.SubnetIDs = found.ID, nil
	for _, subnet := range found.Subnets {
		status.SubnetIDs = append(status.SubnetIDs, subnet.ID)
		s.zones = append(s.zones, subnet.Zone)
	}
	return nil
}

// looked tells whether the subnets that were found are those the spec names.
func (s *scope) looked() bool {
	wanted := s.infra.Spec.ExistingSubnetIDs
	if len(wanted) == 0 {
		return true
	}
	found := slices.Clone(s.infra.Status.SubnetIDs)
	slices.Sort(found)
	return slices.Equal(found, slices.Sorted(slices.Values(wanted)))
}

// credentials are those of the runs that make the control plane in the VPC.
func (r *Reconciler) credentials(ctx context.Context, s *scope) (*workspace.Credentials, error) {
	ref := s.cluster.Spec.ControlPlaneRef
	if !controlplanev1.IsCAPTControlPlane(ref) {
		return &workspace.Credentials{}, nil
	}
	controlPlane := &controlplanev1.CAPTControlPlane{}
	key := client.ObjectKey{Namespace: s.cluster.Namespace, Name: ref.Name}
	if err := r.Client.Get(ctx, key, controlPlane); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the control plane: %w", err)
	} else if err != nil {
		return nil, fault.Wait(infrav1.WaitingForTemplateReason, "CAPTControlPlane %s does not exist, whose credentials find the VPC", ref.Name)
	}
	template, err := r.Workspaces.Template(ctx, s.infra.Namespace, controlPlane.Spec.WorkspaceTemplateRef)
	if err != nil {
		return nil, err
	}
	return r.Workspaces.Credentials(ctx, s.infra.Namespace, template)
}

// failureDomains shows the zones of the VPC.
func failureDomains(_ context.Context, s *scope) error {
	zones := slices.Sorted(slices.Values(s.zones))
	s.infra.Status.FailureDomains = nil
	for _, zone := range slices.Compact(zones) {
		s.infra.Status.FailureDomains = append(s.infra.Status.FailureDomains, clusterv1.FailureDomain{Name: zone, ControlPlane: new(true)})
	}
	return nil
}

// provisioned tells Cluster API, once and for all, that the infrastructure is there.
func provisioned(_ context.Context, s *scope) error {
	s.infra.Status.Initialization.Provisioned = new(true)
	return nil
}

func vpcMessage(s *scope) string {
	if s.infra.Spec.ExistingVPCID != "" {
		return fmt.Sprintf("Using VPC %s with %d subnets", s.infra.Status.VPCID, len(s.infra.Status.SubnetIDs))
	}
	return "VPC " + s.infra.Status.VPCID
}

func zonesMessage(s *scope) string {
	if len(s.zones) == 0 {
		return "The template reports no zones: give it an output azs"
	}
	zones := slices.Sorted(slices.Values(s.zones))
	return strings.Join(slices.Compact(zones), ", ")
}
