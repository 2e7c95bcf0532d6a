package captcluster

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// failureDomain is an element of the output failure_domains.
type failureDomain struct {
	Name string `json:"name"`
	// ControlPlane reports whether machines of the control plane can be in it. It
	// defaults to true.
	ControlPlane *bool             `json:"control_plane"`
	Attributes   map[string]string `json:"attributes"`
}

// readDomains reads the failure domains from the outputs.
func (s *scope) readDomains(apply *infrav1.WorkspaceTemplateApply) error {
	var domains []failureDomain
	if err := workspace.Output(apply, desired.FailureDomainsOutput, &domains); err != nil {
		return err
	}
	for _, d := range domains {
		if d.Name == "" {
			return fault.Stall(infrav1.InvalidOutputReason, "Output %s of WorkspaceTemplateApply %s has an element without a name: set name of each failure domain", desired.FailureDomainsOutput, apply.Name)
		}
		s.domains = append(s.domains, clusterv1.FailureDomain{Name: d.Name, ControlPlane: new(ptr.Deref(d.ControlPlane, true)), Attributes: d.Attributes})
	}
	if len(domains) > 0 {
		return nil
	}
	var zones []string
	err := workspace.Output(apply, desired.ZonesOutput, &zones)
	s.addZones(zones...)
	return err
}

// addZones adds failure domains that are known only by their names.
func (s *scope) addZones(names ...string) {
	for _, name := range names {
		s.domains = append(s.domains, clusterv1.FailureDomain{Name: name, ControlPlane: new(true)})
	}
}

// setFailureDomains writes the failure domains to the status, each once, in alphabetical
// order.
func setFailureDomains(_ context.Context, s *scope) error {
	sorted := slices.Clone(s.domains)
	slices.SortStableFunc(sorted, func(a, b clusterv1.FailureDomain) int { return cmp.Compare(a.Name, b.Name) })
	s.infra.Status.FailureDomains = slices.CompactFunc(sorted, func(a, b clusterv1.FailureDomain) bool { return a.Name == b.Name })
	return nil
}

func domainsMessage(s *scope) string {
	var names []string
	for _, domain := range s.infra.Status.FailureDomains {
		names = append(names, domain.Name)
	}
	switch {
	case len(names) > 0:
		return strings.Join(names, ", ")
	case s.infra.Spec.TemplateRef() == nil:
		return "The cluster has no failure domains"
	default:
		return "The template does not report failure domains: add an output failure_domains or azs to it"
	}
}
