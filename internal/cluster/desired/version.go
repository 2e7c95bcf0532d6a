package desired

import (
	"fmt"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// Version is the Kubernetes version of a control plane: the requested version, the
// next one to request, and the target.
type Version struct {
	// Requested is the version that the existing workspace asks for, or nil for
	// a new control plane. It records the progress of an upgrade: it survives a
	// restart of the manager, and a move to another management cluster.
	Requested *kubeversion.Minor
	// Next is the version to ask for now.
	Next kubeversion.Minor
	// Target is the version of the spec.
	Target kubeversion.Minor
	// Served is the version of the API server, or nil if it is not known or not
	// trusted. The cloud may have upgraded it: EKS does so when the support of a version
	// ends.
	Served *kubeversion.Minor
}

// Version returns the next version of the control plane. It stalls if the spec
// asks for a downgrade, unless the cloud has upgraded the control plane.
func (c *ControlPlane) Version() (Version, error) {
	target, err := kubeversion.Parse(c.ControlPlane.Spec.Version)
	if err != nil {
		return Version{}, fault.Stall(infrav1.InvalidVariableReason, "spec.version %q is not a Kubernetes version: write one such as v1.33.0", c.ControlPlane.Spec.Version)
	}
	requested, err := c.requestedVersion()
	if err != nil {
		return Version{}, err
	}
	served := c.trustedVersion()
	// During a run, the version that the API server serves is still the one that the
	// workspace has followed.
	known := c.servedVersion()
	followed := c.Kubeconfig().Source == controlplanev1.KubeconfigSourceEKS && known != nil && requested != nil && !known.Less(*requested)
	if requested != nil && target.Less(*requested) && !followed {
		return Version{}, fault.Stall(controlplanev1.DowngradeRefusedReason,
			"A control plane cannot be downgraded from %s to %s: set spec.version to %s or later", requested, target, requested)
	}
	version := Version{Requested: requested, Target: target}
	current := requested
	if requested != nil && served != nil {
		version.Served, current = served, new(later(*requested, *served))
	}
	version.Next = nextVersion(target, current, current != nil && c.hasReached(*current))
	return version, nil
}

// Upgrades reports whether Next is newer than what exists.
func (v Version) Upgrades() bool {
	return v.Requested != nil && *v.Requested != v.Next && (v.Served == nil || v.Served.Less(v.Next))
}

// IsBehind reports whether the spec asks for an older version than the one that the
// cloud upgraded the API server to.
func (v Version) IsBehind() bool { return v.Served != nil && v.Target.Less(*v.Served) }

// Hold returns the version without the next step of an upgrade.
func (v Version) Hold() Version {
	switch {
	case v.Requested == nil:
	case v.Served == nil:
		v.Next = *v.Requested
	default:
		v.Next = later(*v.Requested, *v.Served)
	}
	return v
}

func later(a, b kubeversion.Minor) kubeversion.Minor {
	if a.Less(b) {
		return b
	}
	return a
}

// requestedVersion returns the version that the existing workspace asks for, or
// nil.
func (c *ControlPlane) requestedVersion() (*kubeversion.Minor, error) {
	if c.Existing == nil {
		return nil, nil
	}
	value, found := c.Existing.Spec.Variables[versionVariable]
	if !found {
		return nil, nil
	}
	requested, err := kubeversion.Parse(value.String())
	if err != nil {
		return nil, fmt.Errorf("reading variable %s of workspace %s: %w", versionVariable, c.Existing.Name, err)
	}
	return &requested, nil
}

// servedVersion returns the version that the API server reports, or nil.
func (c *ControlPlane) servedVersion() *kubeversion.Minor {
	served, err := kubeversion.Parse(c.ControlPlane.Status.Version)
	if err != nil {
		return nil
	}
	return &served
}

// trustedVersion returns the version that the API server reports if the workspace may
// follow it, or nil. The request of a later version upgrades a cluster irreversibly, so
// only the endpoint of EKS is trusted, and not during a run, which may replace it. Any
// API server can be behind a kubeconfig of an output.
func (c *ControlPlane) trustedVersion() *kubeversion.Minor {
	if c.Kubeconfig().Source != controlplanev1.KubeconfigSourceEKS || c.Existing == nil {
		return nil
	}
	if _, running := fault.AsWaiting(workspace.Outcome(c.Existing)); running {
		return nil
	}
	return c.servedVersion()
}

// hasReached reports whether the workspace is applied and the API server serves
// a version or a later one.
func (c *ControlPlane) hasReached(version kubeversion.Minor) bool {
	served := c.servedVersion()
	return workspace.Outcome(c.Existing) == nil && served != nil && !served.Less(version)
}

// nextVersion returns the version to ask for: at most one minor above the
// requested one, and only once that is reached. A new control plane starts at
// the target.
func nextVersion(target kubeversion.Minor, requested *kubeversion.Minor, reached bool) kubeversion.Minor {
	switch {
	case requested == nil || target == *requested:
		return target
	case !requested.Less(target) || !reached:
		return *requested
	case requested.Major != target.Major:
		return target
	default:
		return requested.Next()
	}
}
