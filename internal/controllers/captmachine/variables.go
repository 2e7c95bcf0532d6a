package captmachine

import (
	"maps"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes"
	"github.com/appthrust/capt/internal/cluster/workspace"
)

// variables is what the template is given, by the names that the API documents.
func (s *scope) variables(template *infrav1.WorkspaceTemplate) (map[string]infrav1.Value, error) {
	values, err := workspace.NewValues(template)
	if err != nil {
		return nil, err
	}
	given := s.given()
	s.surroundings.Offer(values, given)
	values.Give("name", s.machine.Name)
	values.Give("cluster_name", s.surroundings.ClusterName)
	s.offerOwner(values, given)
	s.demandFields(values, given)
	values.Override(s.machine.Spec.Variables)
	return values.Result()
}

// given is what the instance was made with. Only what people ask of this very
// machine changes it afterwards: a machine whose surroundings changed is
// replaced, and drained before.
func (s *scope) given() map[string]infrav1.Value {
	if s.apply == nil || s.machine.Spec.ProviderID == "" {
		return nil
	}
	return s.apply.Spec.Variables
}

// offerOwner gives what the Machine above tells; without one, the version is
// that of the control plane.
func (s *scope) offerOwner(values *workspace.Values, given map[string]infrav1.Value) {
	if s.owner == nil {
		if s.surroundings.Version != "" {
			nodes.Keep(values, given, "kubernetes_version", s.surroundings.Version)
		}
		return
	}
	version := nodes.Minor(s.owner.Spec.Version)
	if version == "" {
		version = s.surroundings.Version
	}
	if version != "" {
		nodes.Keep(values, given, "kubernetes_version", version)
	}
	if name := s.owner.Spec.Bootstrap.DataSecretName; name != nil && *name != "" {
		nodes.Keep(values, given, "bootstrap_secret_name", *name)
	}
}

// demandFields gives what people have set, on the machine or on the pool whose
// settings it shares. What decides where pods run is never left out in silence.
func (s *scope) demandFields(values *workspace.Values, given map[string]infrav1.Value) {
	spec, shared := &s.machine.Spec, &infrav1.CAPTMachinePoolSpec{}
	if s.pool != nil {
		shared = &s.pool.Spec
		s.offerShared(values, given)
	}
	if spec.InstanceType != "" {
		values.Demand("spec.instanceType", "instance_type", spec.InstanceType)
	}
	if labels := merged(shared.Labels, spec.Labels); len(labels) > 0 {
		values.Demand(field("labels", len(spec.Labels)), "labels", labels)
	}
	if taints := nodes.Taints(shared.Taints, spec.Taints); len(taints) > 0 {
		values.Demand(field("taints", len(spec.Taints)), "taints", taints)
	}
	switch tags := merged(shared.Tags, spec.Tags); {
	case len(spec.Tags) > 0:
		values.Demand("spec.tags", "tags", tags)
	case len(tags) > 0:
		values.Offer("tags", tags)
	}
	if zone := s.zone(); zone != "" {
		name := "spec.failureDomain"
		if zone != spec.FailureDomain {
			name = "spec.failureDomain of the Machine"
		}
		values.Demand(name, "availability_zone", zone)
	}
}

// field names where a setting comes from.
func field(name string, own int) string {
	if own == 0 {
		return "spec.nodeGroupRef with its " + name
	}
	return "spec." + name
}

// offerShared gives the settings of the pool that the machine does not set.
func (s *scope) offerShared(values *workspace.Values, given map[string]infrav1.Value) {
	shared := &s.pool.Spec
	if len(shared.InstanceTypes) > 0 && s.machine.Spec.InstanceType == "" {
		nodes.Keep(values, given, "instance_type", shared.InstanceTypes[0])
	}
	if shared.AMIType != "" {
		nodes.Keep(values, given, "ami_type", shared.AMIType)
	}
	if shared.DiskSizeGiB != nil {
		nodes.Keep(values, given, "disk_size", *shared.DiskSizeGiB)
	}
	if capacity := nodes.Capacity(shared.CapacityType); capacity != "" {
		nodes.Keep(values, given, "capacity_type", capacity)
	}
}

// zone is where the node is to be. The Machine above decides before the machine.
func (s *scope) zone() string {
	if s.owner != nil && s.owner.Spec.FailureDomain != "" {
		return s.owner.Spec.FailureDomain
	}
	return s.machine.Spec.FailureDomain
}

func merged(shared, own map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, shared)
	maps.Copy(all, own)
	return all
}
