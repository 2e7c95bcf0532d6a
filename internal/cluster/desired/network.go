package desired

import (
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workspace"
)

// Outputs of a VPC's workspace.
const (
	VPCIDOutput = "vpc_id"
	zonesOutput = "azs"
)

// Network is a CAPTCluster that creates its VPC, with its Cluster.
type Network struct {
	Cluster *clusterv1.Cluster
	Infra   *infrav1.CAPTCluster
	// Existing is the workspace that exists, or nil.
	Existing *infrav1.WorkspaceTemplateApply
}

// Workspace returns the workspace that creates the VPC. The CAPTCluster must have
// a vpcTemplateRef.
func (n *Network) Workspace(template *infrav1.WorkspaceTemplate) (workspace.Desired, error) {
	variables, err := n.variables(template)
	if err != nil {
		return workspace.Desired{}, err
	}
	return workspace.Desired{
		Name: n.name(), Cluster: n.Cluster.Name, Connection: connectionSecret,
		Spec: infrav1.WorkspaceTemplateApplySpec{
			TemplateRef: *n.Infra.Spec.VPCTemplateRef, Variables: variables, RequiredOutputs: []string{VPCIDOutput},
			RetainWorkspaceOnDelete: n.Infra.Spec.RetainVPCOnDelete,
		},
	}, nil
}

// name returns the name of the workspace, which is also the default name of the
// VPC.
func (n *Network) name() string { return n.Cluster.Name + "-vpc" }

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
	values.Set("name", n.name())
	values.Offer("cluster_name", n.Cluster.Name)
	values.Offer("region", spec.Region)
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

// NetworkExists reports whether the VPC of a CAPTCluster was ready once. The zones are
// known from then on, whatever happens to the VPC later. The CAPTCluster is provisioned
// later, with its control plane.
func NetworkExists(infra *infrav1.CAPTCluster) bool {
	known := ptr.Deref(infra.Status.Initialization.Provisioned, false) || conditions.IsTrue(infra, infrav1.FailureDomainsKnownCondition)
	return known && infra.Status.VPCID != ""
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
	if err := workspace.Output(n.Existing, zonesOutput, &zones); err != nil {
		return err
	}
	if len(zones) > 0 {
		values.Offer("azs", zones)
	}
	return nil
}
