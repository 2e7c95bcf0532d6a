package manager

import (
	"fmt"
	"slices"
	"strings"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	bootstrapv1 "github.com/appthrust/capt/api/bootstrap/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/leader"
)

// Values of --providers: the providers that clusterctl installs, each with the
// kinds of one API group.
const (
	providerInfrastructure = "infrastructure"
	providerControlPlane   = "control-plane"
	providerBootstrap      = "bootstrap"
	providerAddon          = "addon"
)

// allProviders are the valid values of --providers.
var allProviders = []string{providerInfrastructure, providerControlPlane, providerBootstrap, providerAddon}

// groupOf returns the API group of the kinds of a provider.
var groupOf = map[string]string{
	providerInfrastructure: infrav1.GroupVersion.Group,
	providerControlPlane:   controlplanev1.GroupVersion.Group,
	providerBootstrap:      bootstrapv1.GroupVersion.Group,
	providerAddon:          addonsv1.GroupVersion.Group,
}

// runs reports whether this manager runs the controllers of a provider.
func (o *Options) runs(provider string) bool { return slices.Contains(o.Providers, provider) }

// groups returns the API groups of this manager's providers.
func (o *Options) groups() []string {
	groups := make([]string, 0, len(o.Providers))
	for _, provider := range o.Providers {
		groups = append(groups, groupOf[provider])
	}
	return groups
}

// leaderElectionID returns the name of the lease.
func (o *Options) leaderElectionID() string { return leader.LeaseName(o.Providers) }

func (o *Options) validateProviders() error {
	if len(o.Providers) == 0 {
		return fmt.Errorf("--providers is empty: set it to one or more of %s", strings.Join(allProviders, ", "))
	}
	for i, provider := range o.Providers {
		if !slices.Contains(allProviders, provider) {
			return fmt.Errorf("--providers contains %q: set it to one or more of %s", provider, strings.Join(allProviders, ", "))
		}
		if slices.Contains(o.Providers[:i], provider) {
			return fmt.Errorf("--providers contains %s twice: remove one", provider)
		}
	}
	return nil
}
