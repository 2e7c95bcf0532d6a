package desired

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// Outputs of a control plane's workspace.
const (
	EndpointOutput             = "cluster_endpoint"
	ClusterNameOutput          = "cluster_name"
	CertificateAuthorityOutput = "cluster_certificate_authority_data"

	defaultKubeconfigOutput = "kubeconfig"
)

// versionVariable is the variable with the Kubernetes version, a minor such as
// 1.33.
const versionVariable = "kubernetes_version"

// regionVariable is the variable with the region. A value in spec.variables overrides the
// fields.
const regionVariable = "region"

// ControlPlane is a CAPTControlPlane with the objects that decide about its
// workspace.
type ControlPlane struct {
	Cluster      *clusterv1.Cluster
	ControlPlane *controlplanev1.CAPTControlPlane
	// Infra is nil if another provider creates the infrastructure.
	Infra *infrav1.CAPTCluster
	// InfraOutputs are the outputs of the infrastructure that the template can declare as
	// variables.
	InfraOutputs map[string]infrav1.Value
	// Existing is the workspace that exists, or nil.
	Existing *infrav1.WorkspaceTemplateApply
	// HasNodes reports whether a node was seen in the cluster.
	HasNodes bool
}

// Workspace returns the workspace that creates the control plane with a version,
// which is the Next of Version.
func (c *ControlPlane) Workspace(template *infrav1.WorkspaceTemplate, version kubeversion.Minor) (workspace.Desired, error) {
	variables, err := c.variables(template, version)
	if err != nil {
		return workspace.Desired{}, err
	}
	return workspace.Desired{
		Name: c.Cluster.Name, Cluster: c.Cluster.Name, Settings: c.ControlPlane.Spec.Workspace,
		Connection: func(name string) string { return name + "-eks-connection" },
		Spec: infrav1.WorkspaceTemplateApplySpec{
			TemplateRef: c.ControlPlane.Spec.WorkspaceTemplateRef, Variables: variables,
			RequiredOutputs: c.requiredOutputs(), WaitForWorkspaces: c.waitForWorkspaces(), Timeout: c.timeout(),
		},
	}, nil
}

// Region returns the region of the control plane, or an empty string if it is
// not known.
func (c *ControlPlane) Region() string {
	if region := c.ControlPlane.Spec.Variables[regionVariable].String(); region != "" && region != "null" {
		return region
	}
	if config := c.ControlPlane.Spec.ControlPlaneConfig; config != nil && config.Region != "" {
		return config.Region
	}
	if c.Infra != nil {
		return c.Infra.Spec.Region
	}
	return ""
}

// Kubeconfig returns how the kubeconfig is created. The default is a token for
// EKS.
func (c *ControlPlane) Kubeconfig() controlplanev1.KubeconfigConfig {
	if config := c.ControlPlane.Spec.Kubeconfig; config != nil {
		return *config
	}
	return controlplanev1.KubeconfigConfig{Source: controlplanev1.KubeconfigSourceEKS}
}

// KubeconfigOutput returns the name of the output with the kubeconfig, for
// control planes whose kubeconfig comes from an output.
func (c *ControlPlane) KubeconfigOutput() string {
	return cmp.Or(c.Kubeconfig().OutputName, defaultKubeconfigOutput)
}

// requiredOutputs returns the outputs that the endpoint and the kubeconfig come
// from.
func (c *ControlPlane) requiredOutputs() []string {
	if c.Kubeconfig().Source == controlplanev1.KubeconfigSourceEKS {
		return []string{EndpointOutput, CertificateAuthorityOutput}
	}
	return []string{EndpointOutput, c.KubeconfigOutput()}
}

// waitForWorkspaces makes the run wait for that of the VPC, if CAPT creates it.
func (c *ControlPlane) waitForWorkspaces() []infrav1.ObjectReference {
	if c.Infra == nil || c.Infra.Status.WorkspaceRef == nil {
		return nil
	}
	return []infrav1.ObjectReference{{Name: c.Infra.Status.WorkspaceRef.Name}}
}

// timeout returns the time limit of the run, or nil if the user sets none.
func (c *ControlPlane) timeout() *metav1.Duration {
	if config := c.ControlPlane.Spec.ControlPlaneConfig; config != nil && config.Timeouts != nil {
		return config.Timeouts.Create
	}
	return nil
}

// variables returns the variables of the template, by the names that the API
// documents.
func (c *ControlPlane) variables(template *infrav1.WorkspaceTemplate, version kubeversion.Minor) (map[string]infrav1.Value, error) {
	values, err := workspace.NewValues(template, c.ControlPlane.Namespace)
	if err != nil {
		return nil, err
	}
	spec := &c.ControlPlane.Spec
	if _, found := spec.Variables[versionVariable]; found {
		return nil, fault.Stall(infrav1.InvalidVariableReason, "spec.variables.%s must not be set: set spec.version", versionVariable)
	}
	values.Set(ClusterNameOutput, c.Cluster.Name)
	if err := c.offerInfrastructure(values); err != nil {
		return nil, err
	}
	values.Require("spec.version", versionVariable, version.String())
	if len(spec.AdditionalTags) > 0 {
		values.Require("spec.additionalTags", "tags", spec.AdditionalTags)
	}
	if config := spec.ControlPlaneConfig; config != nil {
		requireEndpointAccess(values, config.EndpointAccess)
		requireAddons(values, config.Addons)
		requireAddonRoles(values, config.AddonRoles)
		requireAccess(values, config.Access)
	}
	values.Override(spec.Variables)
	c.offerNodesReady(values)
	if err := checkPublicEndpoint(values); err != nil {
		return nil, err
	}
	return values.Result()
}

// offerInfrastructure sets the variables that the infrastructure decides.
func (c *ControlPlane) offerInfrastructure(values *workspace.Values) error {
	for name, value := range c.InfraOutputs {
		values.Offer(name, value)
	}
	if region := c.Region(); region != "" {
		values.Offer(regionVariable, region)
	}
	if c.Infra == nil || c.Infra.Status.VPCID == "" {
		return nil
	}
	values.Set("vpc_id", c.Infra.Status.VPCID)
	values.Set(subnetsVariable, c.Infra.Status.SubnetIDs)
	return c.keepSubnets(values)
}

// Variables of subnets.
const (
	subnetsVariable             = "subnet_ids"
	controlPlaneSubnetsVariable = "control_plane_subnet_ids"
	computeSubnetsVariable      = "compute_subnet_ids"
)

// keepSubnets offers the subnets that an existing control plane and its own compute were
// created with, if the VPC has others now. EKS accepts no subnets in other zones, and would
// replace Fargate profiles and the node group, with what runs on them. Other nodes use all
// subnets. A user who sets the subnets decides about all of them.
func (c *ControlPlane) keepSubnets(values *workspace.Values) error {
	if _, chosen := c.ControlPlane.Spec.Variables[subnetsVariable]; chosen || c.Existing == nil {
		return nil
	}
	for _, name := range []string{controlPlaneSubnetsVariable, computeSubnetsVariable} {
		before, err := c.subnetsBefore(name)
		if err != nil {
			return err
		}
		current := sets.New(c.Infra.Status.SubnetIDs...)
		kept := slices.DeleteFunc(before, func(id string) bool { return !current.Has(id) })
		if len(kept) >= minSubnets && current.Len() > len(kept) {
			values.Offer(name, kept)
		}
	}
	return nil
}

// minSubnets is the number of subnets that EKS requires.
const minSubnets = 2

// subnetsBefore returns the subnets of a variable in the existing workspace. Its default
// are all subnets.
func (c *ControlPlane) subnetsBefore(variable string) ([]string, error) {
	for _, name := range []string{variable, subnetsVariable} {
		value, found := c.Existing.Spec.Variables[name]
		if !found || string(value.Raw) == "null" {
			continue
		}
		var before []string
		if err := json.Unmarshal(value.Raw, &before); err != nil {
			return nil, fmt.Errorf("reading variable %s of workspace %s: %w", name, c.Existing.Name, err)
		}
		return before, nil
	}
	return nil, nil
}

// Variables of a control plane without nodes of its own.
const (
	computeVariable    = "compute"
	nodesReadyVariable = "nodes_ready"
)

// offerNodesReady tells a template without nodes of its own whether the cluster has nodes:
// CoreDNS needs one, and nodes need the outputs of the control plane. Once true, it stays
// true: the opposite would delete CoreDNS.
func (c *ControlPlane) offerNodesReady(values *workspace.Values) {
	if _, set := c.ControlPlane.Spec.Variables[nodesReadyVariable]; set || values.Effective(computeVariable) != `"None"` {
		return
	}
	values.Offer(nodesReadyVariable, c.HasNodes || c.hadNodes())
}

// hadNodes reports whether the existing workspace was applied for a cluster with nodes.
func (c *ControlPlane) hadNodes() bool {
	if c.Existing == nil {
		return false
	}
	if value, set := c.Existing.Spec.Variables[nodesReadyVariable]; set {
		return value.String() == "true"
	}
	// A workspace that had nodes of its own has the default, true. A move to another
	// management cluster or a restore loses its outputs, and keeps the endpoint.
	return workspace.Applied(c.Existing) || c.ControlPlane.Spec.ControlPlaneEndpoint.IsValid()
}

// WaitsForNodes reports whether the template waits for the first node of the cluster.
func (c *ControlPlane) WaitsForNodes() bool {
	return c.Existing != nil && c.Existing.Spec.Variables[nodesReadyVariable].String() == "false" && len(c.ControlPlane.Spec.Variables[nodesReadyVariable].Raw) == 0
}

// Variables of the endpoint's access.
const (
	publicAccessVariable = "endpoint_public_access"
	publicCIDRsVariable  = "endpoint_public_access_cidrs"
)

// checkPublicEndpoint stalls if the endpoint is public but no network may reach
// it, which modules without a default of publicCIDRsVariable refuse.
func checkPublicEndpoint(values *workspace.Values) error {
	networks := values.Effective(publicCIDRsVariable)
	if values.Effective(publicAccessVariable) != "true" || networks != "null" && networks != "[]" {
		return nil
	}
	return fault.Stall(infrav1.InvalidVariableReason,
		"spec.controlPlaneConfig.endpointAccess.publicCIDRs is required with a public endpoint: set the networks that may reach it, for example 203.0.113.0/24 (0.0.0.0/0 is every address), or set public: false")
}

func requireEndpointAccess(values *workspace.Values, access *controlplanev1.EndpointAccess) {
	const path = "spec.controlPlaneConfig.endpointAccess."
	if access == nil {
		return
	}
	if access.Public != nil {
		values.Require(path+"public", publicAccessVariable, *access.Public)
	}
	if access.Private != nil {
		values.Require(path+"private", "endpoint_private_access", *access.Private)
	}
	if len(access.PublicCIDRs) > 0 {
		values.Require(path+"publicCIDRs", publicCIDRsVariable, access.PublicCIDRs)
	}
}
