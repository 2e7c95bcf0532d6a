package template

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
)

// Entries of Limits.ModuleHosts: the default registry of the tool, and the sources of Flux,
// which may have any host.
const (
	registryHost = "registry"
	fluxHost     = "flux"
)

// Limits are what the operator of the manager allows workspaces to use. An empty list
// allows everything. The entries may contain * and ?, which also match slashes.
type Limits struct {
	// Images are the images of pods, apart from the default one.
	Images []string
	// ServiceAccounts are the service accounts of pods.
	ServiceAccounts []string
	// ModuleHosts are the hosts of remote modules.
	ModuleHosts []string
	// DefaultServiceAccount is the service account of pods whose provider config names
	// none.
	DefaultServiceAccount string
}

// Check returns a problem if a run would use what is not allowed.
func (l Limits) Check(module terraform.Module, image, account string) error {
	if image != "" && !allows(l.Images, image) {
		return problem(infrav1.NotAllowedReason, "The image %s of the WorkspaceProviderConfig is not in the manager's list --allowed-runner-images", image)
	}
	if account != "" && account != l.DefaultServiceAccount && !allows(l.ServiceAccounts, account) {
		return problem(infrav1.NotAllowedReason, "The service account %s of the WorkspaceProviderConfig is not in the manager's list --allowed-service-accounts", account)
	}
	if module.Source == terraform.SourceFlux && !allows(l.ModuleHosts, fluxHost) {
		return problem(infrav1.NotAllowedReason, "Flux sources may have any host, and %s is not in the manager's list --allowed-module-hosts", fluxHost)
	}
	if host := moduleHost(module.Address); module.Source == terraform.SourceRemote && !allows(l.ModuleHosts, host) {
		return problem(infrav1.NotAllowedReason, "The host %s of the module is not in the manager's list --allowed-module-hosts", host)
	}
	return nil
}

func allows(patterns []string, name string) bool {
	// path.Match treats slashes as separators.
	flat := strings.NewReplacer("/", "|")
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(pattern string) bool {
		matched, err := path.Match(flat.Replace(pattern), flat.Replace(name))
		return err == nil && matched
	})
}

// forcedGetter is what chooses the way in which a module is fetched. Elsewhere in an
// address, two colons are a part of it.
var forcedGetter = regexp.MustCompile(`^[A-Za-z0-9]+::`)

// moduleHost returns the host that a module address is fetched from. It is empty if there
// is none, such as for a path.
func moduleHost(address string) string {
	address = strings.TrimPrefix(address, forcedGetter.FindString(address))
	if strings.Contains(address, "://") {
		parsed, err := url.Parse(address)
		if err != nil {
			return ""
		}
		return parsed.Hostname()
	}
	if user, rest, found := strings.Cut(address, "@"); found && !strings.Contains(user, "/") {
		host, _, _ := strings.Cut(rest, ":")
		return host
	}
	host, _, found := strings.Cut(address, "/")
	switch {
	case !found || host == "" || strings.HasPrefix(host, "."):
		return ""
	case strings.Contains(host, "."):
		host, _, _ = strings.Cut(host, ":")
		return host
	default:
		return registryHost
	}
}
