package captmachine

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/cluster/nodes"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// instance runs the template, and takes over what it tells of the instance.
func (r *Reconciler) instance(ctx context.Context, s *scope) error {
	var err error
	if s.apply, err = r.Workspaces.Find(ctx, s.machine); err != nil {
		return err
	}
	if s.apply == nil {
		if err := s.start().Wait(); err != nil {
			return err
		}
	}
	if s.info, err = nodes.ClusterInfo(ctx, r.Client, r.Workspaces, s.cluster); err != nil {
		return err
	}
	if err := r.readPool(ctx, s); err != nil {
		return err
	}
	template, err := r.Workspaces.Template(ctx, s.machine.Namespace, s.machine.Spec.WorkspaceTemplateRef)
	if err != nil {
		return err
	}
	wanted, err := s.desired().Workspace(template)
	if err != nil {
		return err
	}
	if s.apply, err = r.Workspaces.Ensure(ctx, s.machine, wanted); err != nil {
		return err
	}
	s.machine.Status.WorkspaceRef = &infrav1.LocalReference{Name: s.apply.Name}
	if err := workspace.Outcome(s.apply); err != nil {
		// A node that is changed in place is not lost meanwhile.
		waiting, waits := fault.AsWaiting(err)
		if !waits || !provisioned(s) {
			return err
		}
		s.updating = waiting.Message()
		return nil
	}
	return s.takeOver()
}

// desired returns the machine with the objects that decide about its workspace.
func (s *scope) desired() *desired.Machine {
	return &desired.Machine{Cluster: s.cluster, Machine: s.machine, Owner: s.owner, Pool: s.pool, Info: s.info, Existing: s.apply}
}

// start is what the instance waits for before it is made.
func (s *scope) start() nodes.Start {
	start := nodes.Start{Cluster: s.cluster}
	if s.owner != nil {
		start.Owner = "Machine " + s.owner.Name
		start.Leaving = !s.owner.DeletionTimestamp.IsZero()
		start.Bootstrap = s.owner.Spec.Bootstrap.DataSecretName
		start.ControlPlane = util.IsControlPlaneMachine(s.owner)
	}
	return start
}

// readPool reads the pool whose settings the node shares.
func (r *Reconciler) readPool(ctx context.Context, s *scope) error {
	ref := s.machine.Spec.NodeGroupRef
	if ref == nil {
		return nil
	}
	pool := &infrav1.CAPTMachinePool{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.machine.Namespace, Name: ref.Name}, pool)
	if apierrors.IsNotFound(err) {
		return fault.Wait(infrav1.WaitingForNodeGroupReason, "CAPTMachinePool %s does not exist: create it, or change spec.nodeGroupRef", ref.Name)
	}
	if err != nil {
		return fmt.Errorf("reading CAPTMachinePool %s: %w", ref.Name, err)
	}
	s.pool = pool
	return nil
}

// takeOver shows what the outputs tell. Cluster API reads the provider ID once
// the instance is said to be there, so the provider ID is written before that.
func (s *scope) takeOver() error {
	told, err := outputsOf(s.apply)
	if err != nil {
		return fault.Stall(infrav1.MissingOutputReason, "WorkspaceTemplateApply %s: %w", s.apply.Name, err)
	}
	spec, status := &s.machine.Spec, &s.machine.Status
	if spec.ProviderID != "" && spec.ProviderID != told.providerID {
		return fault.Stall(infrav1.ProviderIDChangedReason,
			"WorkspaceTemplateApply %s replaced the instance by %s, but a machine is one instance for good: delete this CAPTMachine, so that another is made", s.apply.Name, told.providerID)
	}
	spec.ProviderID = told.providerID
	status.Addresses = told.addresses
	if told.nodeName != "" && status.NodeName == "" {
		status.NodeName = told.nodeName
	}
	status.FailureDomain = told.zone
	if told.zone == "" {
		status.FailureDomain = s.desired().Zone()
	}
	if !s.identified {
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
