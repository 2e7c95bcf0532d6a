package desired

import (
	"encoding/json"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// ProviderIDListOutput is the output with the provider IDs of a pool's nodes.
const ProviderIDListOutput = "provider_id_list"

// MachinePool is a CAPTMachinePool with the objects that decide about its
// workspace.
type MachinePool struct {
	Cluster *clusterv1.Cluster
	Pool    *infrav1.CAPTMachinePool
	// Owner is the MachinePool of Cluster API that owns it.
	Owner *clusterv1.MachinePool
	// Info is what is known about the cluster.
	Info *ClusterInfo
	// Existing is the workspace that exists, or nil.
	Existing *infrav1.WorkspaceTemplateApply
}

// Workspace returns the workspace that creates the node group. It stalls if the
// MachinePool wants more or fewer nodes than spec.scaling allows.
func (p *MachinePool) Workspace(template *infrav1.WorkspaceTemplate) (workspace.Desired, error) {
	if err := p.checkReplicas(); err != nil {
		return workspace.Desired{}, err
	}
	variables, err := p.variables(template)
	if err != nil {
		return workspace.Desired{}, err
	}
	return workspace.Desired{
		Name: p.Pool.Name, Cluster: p.Cluster.Name, Connection: connectionSecret, Settings: p.Pool.Spec.Workspace,
		Spec: infrav1.WorkspaceTemplateApplySpec{
			TemplateRef: p.Pool.Spec.WorkspaceTemplateRef, Variables: variables, RequiredOutputs: []string{ProviderIDListOutput},
		},
	}, nil
}

// Replicas returns the number of nodes that the MachinePool wants.
func (p *MachinePool) Replicas() int32 {
	if p.Owner.Spec.Replicas == nil {
		return 1
	}
	return *p.Owner.Spec.Replicas
}

// ReplicasManagedExternally reports whether another system, such as an
// autoscaler, decides the number of nodes.
func (p *MachinePool) ReplicasManagedExternally() bool {
	return annotations.ReplicasManagedByExternalAutoscaler(p.Owner)
}

// checkReplicas stalls on a number of nodes outside of spec.scaling, which the
// cloud would refuse in the middle of a run.
func (p *MachinePool) checkReplicas() error {
	scaling := p.Pool.Spec.Scaling
	if scaling == nil || p.ReplicasManagedExternally() {
		return nil
	}
	if replicas := p.Replicas(); replicas < *scaling.MinSize || replicas > *scaling.MaxSize {
		return fault.Stall(infrav1.ReplicasOutOfBoundsReason,
			"MachinePool %s wants %d nodes, but spec.scaling allows %d to %d: change one of them", p.Owner.Name, replicas, *scaling.MinSize, *scaling.MaxSize)
	}
	return nil
}

// variables returns the variables of the template, by the names that the API
// documents.
func (p *MachinePool) variables(template *infrav1.WorkspaceTemplate) (map[string]infrav1.Value, error) {
	values, err := workspace.NewValues(template, p.Pool.Namespace)
	if err != nil {
		return nil, err
	}
	pinned := p.pinned()
	p.Info.offer(values, pinned)
	values.Set("name", p.Pool.Name)
	values.Set("cluster_name", p.Info.Name)
	p.setOwner(values, pinned)
	p.setFields(values)
	p.setSize(values)
	values.Override(p.Pool.Spec.Variables)
	p.setFirstSize(values, pinned)
	variables, err := values.Result()
	if err != nil {
		return nil, err
	}
	return variables, checkBootstrapSecret(variables)
}

// pinned returns the variables of an existing node group. A change of what is
// known about its cluster could replace the group as a whole.
func (p *MachinePool) pinned() map[string]infrav1.Value {
	provisioned := p.Pool.Status.Initialization.Provisioned
	exists := provisioned != nil && *provisioned || p.Pool.Spec.ProviderID != "" || len(p.Pool.Spec.ProviderIDList) > 0
	if p.Existing == nil || !exists {
		return nil
	}
	return p.Existing.Spec.Variables
}

// setOwner sets the variables that the MachinePool decides. The nodes follow its
// version. If it has none, they follow the control plane; the cloud replaces them step
// by step.
func (p *MachinePool) setOwner(values *workspace.Values, pinned map[string]infrav1.Value) {
	template := &p.Owner.Spec.Template.Spec
	if version := minorOf(template.Version); version != "" {
		values.Offer(versionVariable, version)
	} else if p.Info.Version != "" {
		values.Offer(versionVariable, p.followedVersion(pinned))
	}
	if name := template.Bootstrap.DataSecretName; name != nil && *name != "" {
		values.Offer(bootstrapVariable, *name)
	}
	if zones := p.Owner.Spec.FailureDomains; len(zones) > 0 {
		values.Require("spec.failureDomains of the MachinePool", "availability_zones", zones)
	}
}

// followedVersion returns the version of the control plane, or that of the node group
// if it is later: a node group cannot be downgraded. During an upgrade it keeps its
// version, because the cloud accepts only that of the control plane.
func (p *MachinePool) followedVersion(pinned map[string]infrav1.Value) string {
	before := pinnedVersion(pinned)
	if before != "" && (p.Info.Upgrading || kubeversion.Older(p.Info.Version, before)) {
		return before
	}
	return p.Info.Version
}

// pinnedVersion returns the version of an existing node group, or an empty string.
func pinnedVersion(pinned map[string]infrav1.Value) string {
	value := pinned[versionVariable]
	return minorOf(value.String())
}

// VersionBehind returns the version of the MachinePool if it is below that of the control
// plane, or an empty string.
func (p *MachinePool) VersionBehind() string {
	if own := minorOf(p.Owner.Spec.Template.Spec.Version); kubeversion.Older(own, p.Info.Version) {
		return own
	}
	return ""
}

// setFields sets the variables of fields of the pool.
func (p *MachinePool) setFields(values *workspace.Values) {
	spec := &p.Pool.Spec
	if len(spec.InstanceTypes) > 0 {
		values.Require("spec.instanceTypes", "instance_types", spec.InstanceTypes)
	}
	switch capacity := capacityType(spec.CapacityType); spec.CapacityType {
	case infrav1.CapacityTypeSpot:
		values.Require("spec.capacityType", "capacity_type", capacity)
	case infrav1.CapacityTypeOnDemand:
		// This is the default, also of templates without the variable.
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
		values.Require("spec.update", "update_config", config)
	}
	if len(spec.Labels) > 0 {
		values.Require("spec.labels", "labels", spec.Labels)
	}
	if len(spec.Taints) > 0 {
		values.Require("spec.taints", "taints", taints(spec.Taints))
	}
	if len(spec.Tags) > 0 {
		values.Require("spec.tags", "tags", spec.Tags)
	}
	if spec.AMIType != "" {
		values.Require("spec.amiType", "ami_type", spec.AMIType)
	}
	if spec.DiskSizeGiB != nil {
		values.Require("spec.diskSizeGiB", "disk_size", *spec.DiskSizeGiB)
	}
}

// setSize sets the number of nodes and its bounds. If another system decides the
// number, only the bounds of spec.scaling are set.
func (p *MachinePool) setSize(values *workspace.Values) {
	replicas, external := p.Replicas(), p.ReplicasManagedExternally()
	if external {
		values.Offer("autoscaled", true)
	} else {
		values.Require("spec.replicas of the MachinePool", "desired_size", replicas)
	}
	switch scaling := p.Pool.Spec.Scaling; {
	case scaling != nil:
		values.Require("spec.scaling.minSize", "min_size", *scaling.MinSize)
		values.Require("spec.scaling.maxSize", "max_size", *scaling.MaxSize)
	case !external:
		values.Offer("min_size", replicas)
		// The maximum of a group must be at least one.
		values.Offer("max_size", max(replicas, 1))
	}
}

// setFirstSize sets the number of nodes of a new group whose number another system
// decides later, within the bounds that the run uses. A template that does not keep that
// number gets none.
func (p *MachinePool) setFirstSize(values *workspace.Values, pinned map[string]infrav1.Value) {
	_, own := p.Pool.Spec.Variables["desired_size"]
	if own || !p.ReplicasManagedExternally() || values.Effective("autoscaled") != "true" {
		return
	}
	first := p.Replicas()
	// spec.replicas follows the number of nodes, and must not change the variables.
	if before, found := pinned["desired_size"]; found {
		if err := json.Unmarshal(before.Raw, &first); err != nil {
			return
		}
	}
	var bound int32
	if json.Unmarshal([]byte(values.Effective("min_size")), &bound) == nil {
		first = max(first, bound)
	}
	if json.Unmarshal([]byte(values.Effective("max_size")), &bound) == nil {
		first = min(first, bound)
	}
	values.Offer("desired_size", first)
}
