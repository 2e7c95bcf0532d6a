package generate

import (
	"maps"
	"slices"

	"github.com/appthrust/capt/internal/terraform/inspect"
)

// input is a value that CAPT passes to a module, with the names that modules give to its variable.
// The first name is that of CAPT.
type input struct{ names []string }

// output is a value that CAPT reads from a module, with the names that modules give to it. The
// first name is that of CAPT, the others are in the order of preference.
type output struct{ names []string }

// Variables that CAPT passes to a control plane.
var (
	clusterName = input{[]string{"cluster_name", "name", "kubernetes_cluster_name"}}
	version     = input{[]string{"kubernetes_version", "cluster_version", "k8s_version", "kube_version", "eks_version"}}
	// fromNetwork are those that the network of the cluster sets.
	fromNetwork = []string{"vpc_id", "subnet_ids"}
)

// Outputs that CAPT reads of a control plane.
var (
	endpoint   = output{[]string{"cluster_endpoint", "endpoint", "kube_api_endpoint", "api_endpoint", "kubernetes_endpoint", "api_server_endpoint", "host"}}
	authority  = output{[]string{"cluster_certificate_authority_data", "cluster_ca_certificate", "cluster_ca_cert", "ca_certificate", "ca_cert"}}
	kubeconfig = output{[]string{"kubeconfig", "kube_admin_config_raw", "admin_kubeconfig", "kubeconfig_raw", "kube_config_raw", "kube_config"}}
)

// Outputs that CAPT reads of a network.
var (
	network = output{[]string{"vpc_id", "network_id", "vnet_id"}}
	subnets = output{[]string{"private_subnets", "private_subnet_ids", "subnet_ids", "vnet_subnets"}}
)

// in returns the name of the variable in the module, or an empty string.
func (i input) in(module *inspect.Module) string { return first(i.names, module.Variables) }

// in returns the name of the output in the module, or an empty string.
func (o output) in(module *inspect.Module) string { return first(o.names, module.Outputs) }

// name returns CAPT's name.
func (i input) name() string { return i.names[0] }

// name returns CAPT's name.
func (o output) name() string { return o.names[0] }

func first[T any](names []string, declared map[string]T) string {
	at := slices.IndexFunc(names, func(name string) bool { _, found := declared[name]; return found })
	if at < 0 {
		return ""
	}
	return names[at]
}

// sorted returns the names of declarations.
func sorted[T any](declared map[string]T) []string { return slices.Sorted(maps.Keys(declared)) }
