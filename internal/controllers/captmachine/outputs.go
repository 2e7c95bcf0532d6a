package captmachine

import (
	"errors"
	"fmt"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/cluster/workspace"
)

// The outputs that a machine is read from.
const (
	nodeNameOutput  = "node_name"
	zoneOutput      = "availability_zone"
	addressesOutput = "addresses"
)

// What the status takes.
const (
	maxProviderID = 512
	maxNodeName   = 253
	maxZone       = 256
	maxAddress    = 256
	maxAddresses  = 128
)

// outputs is what a workspace tells of its instance.
type outputs struct {
	providerID, nodeName, zone string
	addresses                  []clusterv1.MachineAddress
}

// outputsOf reads the outputs, and refuses what the API would refuse.
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
		return o, fmt.Errorf("output %s is empty or sensitive: it must be the provider ID that the node has", desired.ProviderIDOutput)
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
			return errors.New("output addresses has an address that is empty or too long: leave out what is not known")
		}
	}
	return nil
}
