package captmachinepool

import (
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
	values.Give("name", s.pool.Name)
	values.Give("cluster_name", s.surroundings.ClusterName)
	s.demandOwner(values, given)
	s.demandFields(values)
	s.demandSize(values)
	values.Override(s.pool.Spec.Variables)
	return values.Result()
}

// given is what the node group was made with. It is replaced as a whole when its
// surroundings change, so they do not.
func (s *scope) given() map[string]infrav1.Value {
	if s.apply == nil || !provisioned(s) && s.pool.Spec.ProviderID == "" && len(s.listed) == 0 {
		return nil
	}
	return s.apply.Spec.Variables
}

// demandOwner gives what the MachinePool above tells. The nodes follow its
// version; without one they keep the version that the control plane had when
// they were made.
func (s *scope) demandOwner(values *workspace.Values, given map[string]infrav1.Value) {
	template := &s.owner.Spec.Template.Spec
	if version := nodes.Minor(template.Version); version != "" {
		values.Offer("kubernetes_version", version)
	} else if s.surroundings.Version != "" {
		nodes.Keep(values, given, "kubernetes_version", s.surroundings.Version)
	}
	if name := template.Bootstrap.DataSecretName; name != nil && *name != "" {
		values.Offer("bootstrap_secret_name", *name)
	}
	if zones := s.owner.Spec.FailureDomains; len(zones) > 0 {
		values.Demand("spec.failureDomains of the MachinePool", "availability_zones", zones)
	}
}

// demandFields gives what people have set.
func (s *scope) demandFields(values *workspace.Values) {
	spec := &s.pool.Spec
	if len(spec.InstanceTypes) > 0 {
		values.Demand("spec.instanceTypes", "instance_types", spec.InstanceTypes)
	}
	switch capacity := nodes.Capacity(spec.CapacityType); spec.CapacityType {
	case infrav1.CapacityTypeSpot:
		values.Demand("spec.capacityType", "capacity_type", capacity)
	case infrav1.CapacityTypeOnDemand:
		// It is the default, and that of templates that know no other.
		values.Offer("capacity_type", capacity)
	}
	if update := spec.Update; update != nil {
		config := map[string]int32{}
		if update.MaxUnavailable != nil {
			config["max_unavailable"] = *update.MaxUnavailable
		}
		if update.MaxUnavailablePercentage != nil {
			config["max_unavailable_percentage"] = *update.MaxUnavailablePercentage
		}
		values.Demand("spec.update", "update_config", config)
	}
	if len(spec.Labels) > 0 {
		values.Demand("spec.labels", "labels", spec.Labels)
	}
	if len(spec.Taints) > 0 {
		values.Demand("spec.taints", "taints", nodes.Taints(spec.Taints))
	}
	if len(spec.Tags) > 0 {
		values.Demand("spec.tags", "tags", spec.Tags)
	}
	if spec.AMIType != "" {
		values.Demand("spec.amiType", "ami_type", spec.AMIType)
	}
	if spec.DiskSizeGiB != nil {
		values.Demand("spec.diskSizeGiB", "disk_size", *spec.DiskSizeGiB)
	}
}

// demandSize gives how many nodes there are to be. Where another system decides,
// it is only told the bounds.
func (s *scope) demandSize(values *workspace.Values) {
	desired := s.desired()
	if !s.managedElsewhere() {
		values.Demand("spec.replicas of the MachinePool", "desired_size", desired)
	}
	switch scaling := s.pool.Spec.Scaling; {
	case scaling != nil:
		values.Demand("spec.scaling.minSize", "min_size", *scaling.MinSize)
		values.Demand("spec.scaling.maxSize", "max_size", *scaling.MaxSize)
	case !s.managedElsewhere():
		// A group of no nodes still needs room for one.
		values.Offer("min_size", desired)
		values.Offer("max_size", max(desired, 1))
	}
}
