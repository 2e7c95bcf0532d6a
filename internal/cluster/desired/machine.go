package desired

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workspace"
)

// fullVersionVariable is the variable with the complete version of a Cluster API Machine,
// such as 1.33.5. The packages of kubeadm must have it.
const fullVersionVariable = "kubernetes_full_version"

// ProviderIDOutput is the output with the provider ID of a machine's instance.
const ProviderIDOutput = "provider_id"

// Machine is a CAPTMachine with the objects that decide about its workspace.
type Machine struct {
	Cluster *clusterv1.Cluster
	Machine *infrav1.CAPTMachine
	// Owner is the Machine of Cluster API that owns it, or nil.
	Owner *clusterv1.Machine
	// Pool is the CAPTMachinePool of spec.nodeGroupRef, or nil.
	Pool *infrav1.CAPTMachinePool
	// Info is what is known about the cluster.
	Info *ClusterInfo
	// Existing is the workspace that exists, or nil.
	Existing *infrav1.WorkspaceTemplateApply
}

// Workspace returns the workspace that creates the instance.
func (m *Machine) Workspace(template *infrav1.WorkspaceTemplate) (workspace.Desired, error) {
	variables, err := m.variables(template)
	if err != nil {
		return workspace.Desired{}, err
	}
	return workspace.Desired{
		Name: m.Machine.Name, Cluster: m.Cluster.Name, Connection: connectionSecret, Settings: m.Machine.Spec.Workspace,
		Spec: infrav1.WorkspaceTemplateApplySpec{
			TemplateRef: m.Machine.Spec.WorkspaceTemplateRef, Variables: variables, RequiredOutputs: []string{ProviderIDOutput},
		},
	}, nil
}

// connectionSecret returns the name of the connection Secret of a workspace.
func connectionSecret(workspace string) string { return workspace + "-connection" }

// variables returns the variables of the template, by the names that the API
// documents.
func (m *Machine) variables(template *infrav1.WorkspaceTemplate) (map[string]infrav1.Value, error) {
	values, err := workspace.NewValues(template, m.Machine.Namespace)
	if err != nil {
		return nil, err
	}
	pinned := m.pinned()
	m.Info.offer(values, pinned)
	values.Set("name", m.Machine.Name)
	values.Set("cluster_name", m.Info.Name)
	m.setOwner(values, pinned)
	m.setFields(values, pinned)
	values.Override(m.Machine.Spec.Variables)
	variables, err := values.Result()
	if err != nil {
		return nil, err
	}
	return variables, checkBootstrapSecret(variables)
}

// pinned returns the variables of an existing instance. Only the fields of the
// machine itself change an instance. To follow a change of its cluster, the
// machine is replaced, which drains the node first.
func (m *Machine) pinned() map[string]infrav1.Value {
	if m.Existing == nil || m.Machine.Spec.ProviderID == "" {
		return nil
	}
	return m.Existing.Spec.Variables
}

// setOwner sets the variables that the owning Machine decides. Without one, the
// version is that of the machine, or else that of the control plane.
func (m *Machine) setOwner(values *workspace.Values, pinned map[string]infrav1.Value) {
	if m.Owner != nil {
		if name := m.Owner.Spec.Bootstrap.DataSecretName; name != nil && *name != "" {
			offerPinned(values, pinned, bootstrapVariable, *name)
		}
		if minor := minorOf(m.Owner.Spec.Version); minor != "" {
			offerPinned(values, pinned, fullVersionVariable, strings.TrimPrefix(m.Owner.Spec.Version, "v"))
			offerPinned(values, pinned, versionVariable, minor)
			return
		}
	}
	switch own := minorOf(m.Machine.Spec.Version); {
	case own != "":
		values.Require("spec.version", versionVariable, pinnedOr(pinned, versionVariable, own))
	case m.Info.Version != "":
		offerPinned(values, pinned, versionVariable, m.Info.Version)
	}
}

// setFields sets the variables of fields of the machine and of its pool. Fields
// that decide where pods run are never ignored silently.
func (m *Machine) setFields(values *workspace.Values, pinned map[string]infrav1.Value) {
	spec, shared := &m.Machine.Spec, m.shared()
	if m.Pool != nil {
		m.offerPoolFields(values, pinned)
	}
	if spec.InstanceType != "" {
		values.Require("spec.instanceType", "instance_type", spec.InstanceType)
	}
	if labels := m.Labels(); len(labels) > 0 {
		values.Require(fieldName("labels", len(spec.Labels)), "labels", labels)
	}
	if taints := m.taints(); len(taints) > 0 {
		values.Require(fieldName("taints", len(spec.Taints)), "taints", taints)
	}
	switch tags := merge(shared.Tags, spec.Tags); {
	case len(spec.Tags) > 0:
		values.Require("spec.tags", "tags", tags)
	case len(tags) > 0:
		values.Offer("tags", tags)
	}
	if zone := m.Zone(); zone != "" {
		field := "spec.failureDomain"
		if zone != spec.FailureDomain {
			field = "spec.failureDomain of the Machine"
		}
		values.Require(field, "availability_zone", zone)
	}
}

// shared returns the settings of the pool.
func (m *Machine) shared() *infrav1.CAPTMachinePoolSpec {
	if m.Pool == nil {
		return &infrav1.CAPTMachinePoolSpec{}
	}
	return &m.Pool.Spec
}

// Labels returns the labels of the node.
func (m *Machine) Labels() map[string]string { return merge(m.shared().Labels, m.Machine.Spec.Labels) }

func (m *Machine) taints() []taint { return taints(m.shared().Taints, m.Machine.Spec.Taints) }

// Taints returns the taints of the node.
func (m *Machine) Taints() []corev1.Taint {
	var all []corev1.Taint
	for _, t := range m.taints() {
		all = append(all, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	return all
}

// fieldName returns the name of the field that a setting comes from. own is the
// number of entries that the machine itself has.
func fieldName(name string, own int) string {
	if own == 0 {
		return "spec.nodeGroupRef with its " + name
	}
	return "spec." + name
}

// offerPoolFields offers the settings of the pool that the machine does not set.
func (m *Machine) offerPoolFields(values *workspace.Values, pinned map[string]infrav1.Value) {
	shared := &m.Pool.Spec
	if len(shared.InstanceTypes) > 0 && m.Machine.Spec.InstanceType == "" {
		offerPinned(values, pinned, "instance_type", shared.InstanceTypes[0])
	}
	if shared.AMIType != "" {
		offerPinned(values, pinned, "ami_type", shared.AMIType)
	}
	if shared.DiskSizeGiB != nil {
		offerPinned(values, pinned, "disk_size", *shared.DiskSizeGiB)
	}
	if capacity := capacityType(shared.CapacityType); capacity != "" {
		offerPinned(values, pinned, "capacity_type", capacity)
	}
}

// Zone returns the desired failure domain, or an empty string. That of the
// owning Machine takes precedence.
func (m *Machine) Zone() string {
	if m.Owner != nil && m.Owner.Spec.FailureDomain != "" {
		return m.Owner.Spec.FailureDomain
	}
	return m.Machine.Spec.FailureDomain
}

func merge(shared, own map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, shared)
	maps.Copy(all, own)
	return all
}
