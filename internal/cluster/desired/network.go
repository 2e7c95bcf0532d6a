package desired

import (
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workspace"
)

// Outputs of the workspace of a CAPTCluster.
const (
	VPCIDOutput          = "vpc_id"
	FailureDomainsOutput = "failure_domains"
	ZonesOutput          = "azs"
)

// Network is a CAPTCluster that creates its VPC or other infrastructure, with its Cluster.
type Network struct {
	Cluster *clusterv1.Cluster
	Infra   *infrav1.CAPTCluster
	// Existing is the workspace that exists, or nil.
	Existing *infrav1.WorkspaceTemplateApply
}

// Workspace returns the workspace that creates the infrastructure. The CAPTCluster must
// have a vpcTemplateRef or a workspaceTemplateRef.
func (n *Network) Workspace(template *infrav1.WorkspaceTemplate) (workspace.Desired, error) {
	variables, err := n.variables(template)
	if err != nil {
		return workspace.Desired{}, err
	}
	return workspace.Desired{
		Name: n.name(), Cluster: n.Cluster.Name, Connection: connectionSecret, Settings: n.Infra.Spec.Workspace,
		Spec: infrav1.WorkspaceTemplateApplySpec{
			TemplateRef: *n.Infra.Spec.TemplateRef(), Variables: variables, RequiredOutputs: n.requiredOutputs(),
			RetainWorkspaceOnDelete: n.Infra.Spec.RetainVPCOnDelete,
		},
	}, nil
}

// requiredOutputs returns the outputs that the template must have.
func (n *Network) requiredOutputs() []string {
	if n.Infra.Spec.HasVPC() {
		return []string{VPCIDOutput}
	}
	return nil
}

// name returns the name of the workspace, which is also the default of the variable name.
func (n *Network) name() string { return NetworkName(n.Cluster.Name, &n.Infra.Spec) }

// NetworkName returns the name of the workspace that creates the infrastructure of a
// cluster.
func NetworkName(cluster string, spec *infrav1.CAPTClusterSpec) string {
	if spec.HasVPC() {
		return cluster + "-vpc"
	}
	return cluster + "-infrastructure"
}

// variables returns the variables of the template, by the names that the API
// documents.
func (n *Network) variables(template *infrav1.WorkspaceTemplate) (map[string]infrav1.Value, error) {
	values, err := workspace.NewValues(template, n.Infra.Namespace)
	if err != nil {
		return nil, err
	}
	spec, config := &n.Infra.Spec, &infrav1.VPCConfig{}
	if spec.VPCConfig != nil {
		config = spec.VPCConfig
	}
	if spec.HasVPC() {
		values.Set("name", n.name())
	} else {
		// Nothing is imposed on a remote module, whose variables are not known.
		values.Offer("name", n.name())
	}
	values.Offer("cluster_name", n.Cluster.Name)
	if spec.Region != "" {
		values.Offer(regionVariable, spec.Region)
	}
	if config.Name != "" {
		values.Require("spec.vpcConfig.name", "name", config.Name)
	}
	if config.CIDR != "" {
		values.Require("spec.vpcConfig.cidr", "cidr", config.CIDR)
	}
	if len(config.AvailabilityZones) > 0 {
		values.Require("spec.vpcConfig.availabilityZones", "azs", config.AvailabilityZones)
	} else if err := n.keepZones(values); err != nil {
		return nil, err
	}
	if config.NATGateway != "" {
		values.Require("spec.vpcConfig.natGateway", "nat_gateway", config.NATGateway)
	}
	if len(spec.AdditionalTags) > 0 {
		values.Require("spec.additionalTags", "tags", spec.AdditionalTags)
	}
	values.Override(spec.Variables)
	return values.Result()
}

// NetworkExists reports whether the infrastructure of a CAPTCluster was ready once. The
// failure domains are known from then on, whatever happens to it later. The CAPTCluster is
// provisioned later, with its control plane.
func NetworkExists(infra *infrav1.CAPTCluster) bool {
	known := ptr.Deref(infra.Status.Initialization.Provisioned, false) || conditions.IsTrue(infra, infrav1.FailureDomainsKnownCondition)
	return known && (infra.Status.VPCID != "" || !infra.Spec.HasVPC())
}

// keepZones offers the zones of an existing VPC in their order. A module that chooses
// zones may choose others when the cloud adds or closes one, and the position of a zone
// can decide the networks of its subnets: they would be replaced.
func (n *Network) keepZones(values *workspace.Values) error {
	if n.Existing == nil {
		return nil
	}
	if before, found := n.Existing.Spec.Variables["azs"]; found {
		// The status, and with it the outputs, is lost in a move to another management
		// cluster.
		values.Offer("azs", before)
		return nil
	}
	// A new cluster does not wait for a further run. With a list in the template, the
	// module chooses no zones.
	if !NetworkExists(n.Infra) || values.Effective("azs") != "null" {
		return nil
	}
	var zones []string
	if err := workspace.Output(n.Existing, ZonesOutput, &zones); err != nil {
		return err
	}
	if len(zones) > 0 {
		values.Offer("azs", zones)
	}
	return nil
}
