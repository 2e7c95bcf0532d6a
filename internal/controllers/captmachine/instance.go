package captmachine

import (
	"context"
	"time"

	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/cluster/nodes"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// instance runs the template and reports the instance.
func (r *Reconciler) instance(ctx context.Context, s *scope) error {
	var err error
	if s.apply, s.info, err = nodes.FindWorkspace(ctx, r.Client, r.Workspaces, s.machine, s.preconditions()); err != nil {
		return err
	}
	if err := r.readPool(ctx, s); err != nil {
		return err
	}
	if s.apply, err = r.Workspaces.EnsureFrom(ctx, s.machine, s.machine.Spec.WorkspaceTemplateRef, s.desired().Workspace); err != nil {
		return err
	}
	s.machine.Status.WorkspaceRef = &infrav1.LocalReference{Name: s.apply.Name}
	if err := workspace.Outcome(s.apply); err != nil {
		// The instance of a running update still exists.
		waiting, waits := fault.AsWaiting(err)
		if !waits || !provisioned(s) {
			return err
		}
		s.updating = waiting.Message()
		return nil
	}
	return s.reportInstance()
}

// desired returns the machine with the objects that decide about its workspace.
func (s *scope) desired() *desired.Machine {
	return &desired.Machine{Cluster: s.cluster, Machine: s.machine, Owner: s.owner, Pool: s.pool, Info: s.info, Existing: s.apply}
}

// preconditions returns what has to be true before the instance is created.
func (s *scope) preconditions() nodes.Preconditions {
	p := nodes.Preconditions{Cluster: s.cluster}
	if s.owner != nil {
		p.Owner = "Machine " + s.owner.Name
		p.OwnerDeleting = !s.owner.DeletionTimestamp.IsZero()
		p.BootstrapSecret = s.owner.Spec.Bootstrap.DataSecretName
		p.ControlPlane = util.IsControlPlaneMachine(s.owner)
	}
	return p
}

// readPool reads the pool of spec.nodeGroupRef.
func (r *Reconciler) readPool(ctx context.Context, s *scope) error {
	ref := s.machine.Spec.NodeGroupRef
	if ref == nil {
		return nil
	}
	pool := &infrav1.CAPTMachinePool{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.machine.Namespace, Name: ref.Name}, pool)
	if err := reconcile.WaitIfNotFound(err, infrav1.WaitingForNodeGroupReason, "CAPTMachinePool "+ref.Name, "create it, or change spec.nodeGroupRef"); err != nil {
		return err
	}
	s.pool = pool
	return nil
}

// reportInstance copies the outputs of the workspace into the machine. Cluster API
// reads the provider ID as soon as the machine is provisioned, so the provider ID
// is written one reconcile earlier.
func (s *scope) reportInstance() error {
	out, err := outputsOf(s.apply)
	if err != nil {
		return fault.Stall(infrav1.MissingOutputReason, "WorkspaceTemplateApply %s: %w", s.apply.Name, err)
	}
	spec, status := &s.machine.Spec, &s.machine.Status
	if spec.ProviderID != "" && spec.ProviderID != out.providerID {
		s.replacement = out.providerID
		return fault.Stall(infrav1.ProviderIDChangedReason,
			"WorkspaceTemplateApply %s replaced the instance with %s, but a CAPTMachine cannot change its instance: delete this CAPTMachine to replace it", s.apply.Name, out.providerID)
	}
	spec.ProviderID = out.providerID
	status.Addresses = out.addresses
	if out.nodeName != "" && status.NodeName == "" {
		status.NodeName = out.nodeName
	}
	status.FailureDomain = out.zone
	if out.zone == "" {
		status.FailureDomain = s.desired().Zone()
	}
	if !s.providerIDWritten {
		return fault.WaitFor(time.Second, infrav1.WaitingForProviderIDReason, "The provider ID is being written")
	}
	status.Initialization.Provisioned = new(true)
	return nil
}

func instanceReason(s *scope) string {
	if s.updating != "" {
		return infrav1.UpdatingReason
	}
	return ""
}

func instanceMessage(s *scope) string {
	if s.updating != "" {
		return s.updating
	}
	return "WorkspaceTemplateApply " + s.apply.Name + " is applied"
}
