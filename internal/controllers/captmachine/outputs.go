package captmachine

import (
	"fmt"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/cluster/workspace"
)

// The optional outputs of a machine's workspace.
const (
	nodeNameOutput  = "node_name"
	zoneOutput      = "availability_zone"
	addressesOutput = "addresses"
)

// The limits of the API.
const (
	maxProviderID = 512
	maxNodeName   = 253
	maxZone       = 256
	maxVersion    = 256
	maxAddress    = 256
	maxAddresses  = 128
)

// outputs are the outputs of a machine's workspace.
type outputs struct {
	providerID, nodeName, zone string
	addresses                  []clusterv1.MachineAddress
}

// outputsOf returns the outputs of a workspace. It returns an error for values that
// the API would reject.
func outputsOf(apply *infrav1.WorkspaceTemplateApply) (outputs, error) {
	var o outputs
	for name, into := range map[string]any{
		desired.ProviderIDOutput: &o.providerID, nodeNameOutput: &o.nodeName, zoneOutput: &o.zone, addressesOutput: &o.addresses,
	} {
		if err := workspace.Output(apply, name, into); err != nil {
			return o, err
		}
	}
	if o.providerID == "" {
		return o, fmt.Errorf("output %s is empty or sensitive: it must be the provider ID of the node", desired.ProviderIDOutput)
	}
	for _, text := range []struct {
		name, value string
		limit       int
	}{
		{desired.ProviderIDOutput, o.providerID, maxProviderID}, {nodeNameOutput, o.nodeName, maxNodeName}, {zoneOutput, o.zone, maxZone},
	} {
		if len(text.value) > text.limit {
			return o, fmt.Errorf("output %s is longer than %d characters", text.name, text.limit)
		}
	}
	return o, checkAddresses(o.addresses)
}

var addressTypes = []clusterv1.MachineAddressType{
	clusterv1.MachineHostName, clusterv1.MachineExternalIP, clusterv1.MachineInternalIP,
	clusterv1.MachineExternalDNS, clusterv1.MachineInternalDNS,
}

func checkAddresses(addresses []clusterv1.MachineAddress) error {
	if len(addresses) > maxAddresses {
		return fmt.Errorf("output %s has more than %d entries", addressesOutput, maxAddresses)
	}
	for i, a := range addresses {
		if !slices.Contains(addressTypes, a.Type) {
			return fmt.Errorf("output %s[%d].type is %q: it must be one of %v", addressesOutput, i, a.Type, addressTypes)
		}
		if a.Address == "" || len(a.Address) > maxAddress {
			return fmt.Errorf("output %s[%d].address must have 1 to %d characters: omit unknown addresses", addressesOutput, i, maxAddress)
		}
	}
	return nil
}
