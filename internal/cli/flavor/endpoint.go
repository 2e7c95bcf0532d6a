package flavor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// The variables of the endpoint of a control plane.
const publicAccess, publicCIDRs = "ENDPOINT_PUBLIC_ACCESS", "ENDPOINT_PUBLIC_CIDRS"

// withoutNetworks returns values that have no networks for a private endpoint, unless they are
// given.
func withoutNetworks(variables []Variable, valueOf func(name string) (string, bool)) func(name string) (string, bool) {
	access, _ := valueOf(publicAccess)
	isPrivate := access == "false" && slices.ContainsFunc(variables, func(v Variable) bool { return v.Name == publicAccess })
	return func(name string) (string, bool) {
		value, found := valueOf(name)
		return value, found || isPrivate && name == publicCIDRs
	}
}

// checkEndpoint returns an error for a public endpoint without networks, which EKS opens to
// every address, for networks of a private one, and for values that are neither. Flavors without
// publicAccess derive it from the networks.
func checkEndpoint(variables []Variable, valueOf func(name string) (string, bool)) error {
	access, networks := "", ""
	for _, v := range variables {
		value, found := valueOf(v.Name)
		if !found && v.Default != nil {
			value = *v.Default
		}
		switch v.Name {
		case publicAccess:
			if access = value; access != "true" && access != "false" {
				return fmt.Errorf("%s is %q: write true or false", publicAccess, access)
			}
		case publicCIDRs:
			networks = strings.TrimSpace(value)
			if err := checkNetworks(networks); err != nil {
				return err
			}
		}
	}
	switch {
	case access == "true" && networks == "":
		return fmt.Errorf("%[1]s is empty, but %[2]s is true: pass --set %[1]s=203.0.113.0/24 with the networks that may reach the API server, or --set %[2]s=false for a private endpoint", publicCIDRs, publicAccess)
	case access == "false" && networks != "":
		return fmt.Errorf("%[2]s is false, but %[1]s has networks: pass --set %[1]s= for a private endpoint", publicCIDRs, publicAccess)
	default:
		return nil
	}
}

// checkNetworks returns an error for the first element of a list that is not a network.
func checkNetworks(list string) error {
	if list == "" {
		return nil
	}
	for element := range strings.SplitSeq(list, ",") {
		network := strings.Trim(element, ` "'`)
		if _, err := netip.ParsePrefix(network); err != nil {
			return fmt.Errorf("%s has %q, which is not a network: write for example 203.0.113.0/24,198.51.100.7/32", publicCIDRs, network)
		}
	}
	return nil
}
