package desired

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workspace"
)

// VPCIDOutput is the output with the ID of the VPC.
const VPCIDOutput = "vpc_id"

// Network is a CAPTCluster that creates its VPC, with its Cluster.
type Network struct {
	Cluster *clusterv1.Cluster
	Infra   *infrav1.CAPTCluster
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
	values, err := workspace.NewValues(template)
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
