package manager

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/pflag"

	"github.com/appthrust/capt/internal/kubernetes/dial"
)

// NetworkOptions restrict the addresses to which the manager connects for its users:
// chart repositories, workload clusters, endpoints of AWS that templates name, and
// destinations of notifications.
type NetworkOptions struct {
	// ClusterCIDRs are networks of the management cluster, which users do not reach.
	ClusterCIDRs []string
	// AllowedCIDRs are networks that are reached although they are denied by default.
	AllowedCIDRs []string
	// ChartHosts are the hosts of the charts of add-ons. Empty allows all.
	ChartHosts []string
	// ArtifactHosts are the hosts of Flux's source-controller.
	ArtifactHosts []string
	// NotificationHosts are the hosts to which notifications are sent. Empty allows all.
	NotificationHosts []string

	policy dial.Policy
}

// AddFlags registers the flags.
func (o *NetworkOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.ClusterCIDRs, "cluster-cidrs", nil, "Networks of the management cluster, such as those of Services and Pods, to which the manager does not connect for users: to chart repositories, workload clusters, AWS endpoints and destinations of notifications that they name.")
	fs.StringSliceVar(&o.AllowedCIDRs, "allowed-cidrs", nil, "Networks to which the manager connects for users although they are denied by default: loopback, link-local and multicast addresses, metadata services of clouds, and --cluster-cidrs.")
	fs.StringSliceVar(&o.ChartHosts, "allowed-chart-hosts", nil, "Hosts of the charts of add-ons, such as ghcr.io or *.example.com. Add-ons with charts of other hosts are not installed. The manager reads charts from these hosts only, also if a repository redirects it. A host without a wildcard may have any address. Empty allows all hosts.")
	fs.StringSliceVar(&o.ArtifactHosts, "artifact-hosts", []string{"source-controller.flux-system.svc.cluster.local"}, "Hosts, with the port unless it is that of the protocol, at which Flux's source-controller serves the artifacts of sources that WorkspaceTemplates refer to. Artifacts are not read from other hosts.")
	fs.StringSliceVar(&o.NotificationHosts, "allowed-notification-hosts", nil, "Hosts to which the manager sends notifications, such as hooks.slack.com or *.example.com. A host without a wildcard may have any address. Empty allows all hosts.")
}

// Validate parses the networks.
func (o *NetworkOptions) Validate() error {
	var errs []error
	for _, flag := range []struct {
		name  string
		texts []string
		into  *[]netip.Prefix
	}{{"cluster-cidrs", o.ClusterCIDRs, &o.policy.Denied}, {"allowed-cidrs", o.AllowedCIDRs, &o.policy.Allowed}} {
		networks, err := dial.ParseNetworks(flag.texts)
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag.name, err))
		}
		*flag.into = networks
	}
	return errors.Join(errs...)
}

// clusters returns the policy of connections to workload clusters and AWS.
func (o *NetworkOptions) clusters() *dial.Policy { return &o.policy }

// charts returns the policy of connections to chart repositories.
func (o *NetworkOptions) charts() *dial.Policy {
	policy := o.policy
	policy.Hosts = o.ChartHosts
	return &policy
}

// notifications returns the policy of connections to destinations of notifications.
func (o *NetworkOptions) notifications() *dial.Policy {
	policy := o.policy
	policy.Hosts = o.NotificationHosts
	return &policy
}
