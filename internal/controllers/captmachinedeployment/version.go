package captmachinedeployment

import (
	"context"
	"fmt"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/machines"
	"github.com/appthrust/capt/internal/cluster/nodes"
	"github.com/appthrust/capt/internal/cluster/ownership"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// maxNames is the number of machines that a message names.
const maxNames = 5

// readVersions reads the version of the control plane, and whether the template takes
// a version. A template that does not exist yet takes none: the version of its machines
// is recorded later.
func (r *Reconciler) readVersions(ctx context.Context, s *scope) error {
	s.versions = machines.Versions{Policy: s.deployment.Spec.VersionPolicy}
	if s.cluster == nil {
		return nil
	}
	info, err := nodes.ClusterInfo(ctx, r.Client, r.Workspaces, s.cluster)
	if err != nil {
		return err
	}
	s.versions.Served, s.versions.Upgrading = info.Version, info.Upgrading
	template, err := r.Workspaces.Template(ctx, s.deployment.Namespace, s.deployment.Spec.Template.Spec.WorkspaceTemplateRef)
	switch _, waits := fault.AsWaiting(err); {
	case waits:
		return nil
	case err != nil:
		return err
	}
	s.versions.Accepted = workspace.Accepts(template, s.deployment.Namespace, machines.VersionVariable)
	return nil
}

// followsVersion reports whether the machines may follow the version of the control
// plane.
func (s *scope) followsVersion() bool {
	return !s.versions.IsFixed(&s.deployment.Spec.Template) && s.versions.Accepted
}

// recordVersion records the version of a set that was created without one, if its
// machines are current. From then on they follow the control plane.
func (r *Reconciler) recordVersion(ctx context.Context, s *scope) error {
	set := s.recordable()
	if set == nil || s.scaleOnly() {
		return nil
	}
	if err := r.readLive(ctx, s); err != nil {
		return err
	}
	if set = s.recordable(); set == nil {
		return nil
	}
	to := set.DeepCopy()
	to.Spec.Template.Spec.Version = s.versions.Served
	if err := ownership.Patch(ctx, r.Client, set, to); err != nil {
		return fmt.Errorf("updating set %s: %w", set.Name, err)
	}
	s.replace(to)
	return nil
}

func (s *scope) recordable() *infrav1.CAPTMachineSet {
	return s.versions.Recordable(&s.deployment.Spec.Template, s.sets, func(set *infrav1.CAPTMachineSet) []machines.Machine {
		return s.machines[set.UID]
	})
}

// version reports machines that are older than the control plane.
func (r *Reconciler) version(_ context.Context, s *scope) error {
	var all []machines.Machine
	for _, of := range s.machines {
		all = append(all, of...)
	}
	behind := s.versions.Behind(all)
	if len(behind) == 0 {
		return nil
	}
	return fault.Wait(infrav1.VersionBehindReason, "The control plane has Kubernetes %s, and %d machines are older: %s; %s",
		s.versions.Served, len(behind), message.List(behind, maxNames), s.nextVersion())
}

// nextVersion describes how machines get the version of the control plane.
func (s *scope) nextVersion() string {
	spec := &s.deployment.Spec
	switch {
	case spec.Template.Spec.Version != "":
		return "change spec.template.spec.version, or remove it to follow the control plane"
	case s.versions.IsFixed(&spec.Template):
		return "change kubernetes_version in spec.template.spec.variables, or remove it to follow the control plane"
	case !s.versions.Accepted:
		return fmt.Sprintf("WorkspaceTemplate %s has no variable kubernetes_version, so that only a change of the template replaces them", spec.Template.Spec.WorkspaceTemplateRef.Name)
	case s.versions.Upgrading && spec.VersionPolicy != infrav1.VersionPolicyKeep:
		return "they are replaced after the upgrade of the control plane"
	case s.template().Spec.Version == s.versions.Served:
		return "they are being replaced"
	}
	return "set spec.versionPolicy: Follow to replace them"
}
