package desired

import (
	"maps"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// bootstrapVariable names the Secret with the data that a node starts with.
const bootstrapVariable = "bootstrap_secret_name"

// checkBootstrapSecret refuses a Secret that is not one of a node. The nodes, and all pods on
// them, can read its content.
func checkBootstrapSecret(variables map[string]infrav1.Value) error {
	name := variables[bootstrapVariable].String()
	if !infrav1.IsReservedSecretName(name) && !infrav1.IsClusterSecretName(name) {
		return nil
	}
	return fault.Stall(infrav1.NotAllowedReason, "Secret %s belongs to CAPT or Cluster API, and nodes must not read it: set dataSecretName of the Machine, or the variable %s, to the Secret with the data of the nodes", name, bootstrapVariable)
}

// fieldVariables are the variables that fields of control planes, machines and pools set.
// An output of another workspace of the cluster with such a name is not passed on.
var fieldVariables = map[string]bool{
	"name": true, "cluster_name": true, "kubernetes_version": true, fullVersionVariable: true, bootstrapVariable: true,
	"instance_type": true, "instance_types": true, "labels": true, "taints": true, "tags": true,
	"availability_zone": true, "availability_zones": true, "ami_type": true, "capacity_type": true, "disk_size": true,
	"min_size": true, "max_size": true, "desired_size": true, "autoscaled": true, "max_unavailable": true, "max_unavailable_percentage": true,
}

// ClusterInfo is what is known about the cluster that nodes join.
type ClusterInfo struct {
	// Name is the name of the cluster at the cloud provider.
	Name string
	// Version is the minor version of the API server, or empty.
	Version string
	// Upgrading is set if the API server does not serve the version of the spec yet, or the
	// one that was requested last, or if its version is not known. Nodes would be replaced
	// once for each minor of an upgrade over several. It is not set while the upgrade waits
	// for old nodes.
	Upgrading bool
	// ControlPlaneDeleting reports whether the control plane is being deleted.
	ControlPlaneDeleting bool

	values map[string]any
}

// NewClusterInfo returns what the objects of a cluster say about it. controlPlane
// and infra are nil if another provider owns them. apply is the workspace of the
// control plane, or nil if it does not exist.
func NewClusterInfo(cluster *clusterv1.Cluster, controlPlane *controlplanev1.CAPTControlPlane, apply *infrav1.WorkspaceTemplateApply, infra *infrav1.CAPTCluster) (*ClusterInfo, error) {
	info := &ClusterInfo{Name: cluster.Name, values: map[string]any{}}
	if controlPlane != nil {
		if err := info.addControlPlane(controlPlane, apply); err != nil {
			return nil, err
		}
	}
	if infra != nil {
		info.addInfrastructure(infra)
	}
	if endpoint := cluster.Spec.ControlPlaneEndpoint; endpoint.IsValid() {
		info.add("cluster_endpoint", "https://"+endpoint.String())
	}
	return info, nil
}

// addControlPlane adds the outputs of the control plane's workspace.
func (c *ClusterInfo) addControlPlane(controlPlane *controlplanev1.CAPTControlPlane, apply *infrav1.WorkspaceTemplateApply) error {
	c.ControlPlaneDeleting = !controlPlane.DeletionTimestamp.IsZero()
	version := controlPlane.Status.Version
	if version == "" {
		version = controlPlane.Spec.Version
	}
	c.Version = minorOf(version)
	requested := ""
	if apply != nil {
		value := apply.Spec.Variables[versionVariable]
		requested = minorOf(value.String())
	}
	c.Upgrading = controlPlane.Status.Version == "" || requested != "" && requested != c.Version ||
		kubeversion.Older(c.Version, minorOf(controlPlane.Spec.Version)) && !waitsForNodes(controlPlane)
	if region := (&ControlPlane{ControlPlane: controlPlane}).Region(); region != "" {
		c.add(regionVariable, region)
	}
	if apply == nil {
		return nil
	}
	c.AddOutputs(SharedOutputs(apply))
	return workspace.Output(apply, "cluster_name", &c.Name)
}

// AddOutputs adds outputs that are not known from another object.
func (c *ClusterInfo) AddOutputs(outputs map[string]infrav1.Value) {
	for name, value := range outputs {
		c.add(name, value)
	}
}

// SharedOutputs returns the outputs of a workspace that other templates of the cluster can
// declare as variables.
func SharedOutputs(apply *infrav1.WorkspaceTemplateApply) map[string]infrav1.Value {
	if apply == nil {
		return nil
	}
	shared := map[string]infrav1.Value{}
	for name, value := range apply.Status.Outputs {
		if !fieldVariables[name] && string(value.Raw) != "null" {
			shared[name] = value
		}
	}
	return shared
}

// waitsForNodes reports whether the next step of an upgrade waits for nodes with an old
// kubelet.
func waitsForNodes(controlPlane *controlplanev1.CAPTControlPlane) bool {
	ready := conditions.Get(controlPlane, controlplanev1.WorkspaceReadyCondition)
	return ready != nil && ready.Reason == controlplanev1.NodesTooOldReason
}

func (c *ClusterInfo) addInfrastructure(infra *infrav1.CAPTCluster) {
	c.add(regionVariable, infra.Spec.Region)
	if infra.Status.VPCID != "" {
		c.values["vpc_id"] = infra.Status.VPCID
	}
	if len(infra.Status.SubnetIDs) > 0 {
		c.values["subnet_ids"] = infra.Status.SubnetIDs
	}
}

// add sets a value unless it is empty or already set.
func (c *ClusterInfo) add(name string, value any) {
	if _, found := c.values[name]; !found && value != "" {
		c.values[name] = value
	}
}

// offer offers everything that is known to a template. Pinned variables keep
// their value, because a change could replace the node.
func (c *ClusterInfo) offer(values *workspace.Values, pinned map[string]infrav1.Value) {
	for _, name := range slices.Sorted(maps.Keys(c.values)) {
		offerPinned(values, pinned, name, c.values[name])
	}
}
