// Package leader names the Leases with which managers elect their leaders.
package leader

import (
	"slices"
	"strings"
)

// infrastructure is the provider whose manager runs Terraform.
const infrastructure = "infrastructure"

// LeaseName returns the name of the Lease of the managers of some providers, or of all if
// none is given. Managers with different providers do not compete, except that only one
// manager may run the engine.
func LeaseName(providers []string) string {
	if len(providers) == 0 || slices.Contains(providers, infrastructure) {
		return "capt-manager-leader"
	}
	return "capt-" + strings.Join(slices.Sorted(slices.Values(providers)), "-") + "-leader"
}
