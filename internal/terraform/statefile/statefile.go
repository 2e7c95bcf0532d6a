// Package statefile reads and writes the states of OpenTofu and Terraform, which have the same
// format.
package statefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/appthrust/capt/internal/terraform"
)

// State is the part of a state file that the engine uses.
type State struct {
	terraform.StateInfo
	Outputs map[string]terraform.Output
	// Addresses are the addresses of the managed resources.
	Addresses []string
}

// document is a state as it is stored.
type document struct {
	Version     int    `json:"version"`
	ToolVersion string `json:"terraform_version"`
	Serial      uint64 `json:"serial"`
	Lineage     string `json:"lineage"`
	Outputs     map[string]struct {
		Value     json.RawMessage `json:"value"`
		Type      json.RawMessage `json:"type"`
		Sensitive bool            `json:"sensitive"`
	} `json:"outputs"`
	Resources []struct {
		Module    string `json:"module"`
		Mode      string `json:"mode"`
		Type      string `json:"type"`
		Name      string `json:"name"`
		Provider  string `json:"provider"`
		Instances []struct {
			IndexKey any    `json:"index_key"`
			Deposed  string `json:"deposed"`
		} `json:"instances"`
	} `json:"resources"`
	EncryptedData string `json:"encrypted_data"`
}

// ErrEncrypted is returned for an encrypted state, which only the tool can read.
var ErrEncrypted = errors.New("state is encrypted")

const stateVersion = 4

// Parse parses a state of format version 4. No data is an empty state.
func Parse(data []byte) (*State, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return &State{}, nil
	}
	var file document
	if err := json.Unmarshal(data, &file); err != nil {
		// The decoder's message may contain parts of the state.
		return nil, errors.New("parsing state: invalid JSON")
	}
	if file.EncryptedData != "" {
		return nil, ErrEncrypted
	}
	if file.Version != stateVersion {
		return nil, fmt.Errorf("parsing state: format version %d is not supported", file.Version)
	}
	state := &State{
		StateInfo: terraform.StateInfo{Lineage: file.Lineage, Serial: file.Serial},
		Outputs:   make(map[string]terraform.Output, len(file.Outputs)),
	}
	for name, output := range file.Outputs {
		if name == ownerOutput {
			_ = json.Unmarshal(output.Value, &state.Owner) // Any other type is ignored.
			continue
		}
		state.Outputs[name] = terraform.Output{Value: output.Value, Type: output.Type, Sensitive: output.Sensitive}
	}
	for _, resource := range file.Resources {
		if resource.Mode != "managed" {
			continue
		}
		for _, instance := range resource.Instances {
			address := resource.Type + "." + resource.Name + index(instance.IndexKey)
			if resource.Module != "" {
				address = resource.Module + "." + address
			}
			if instance.Deposed == "" {
				state.Addresses = append(state.Addresses, address)
			}
			state.Resources++
		}
	}
	slices.Sort(state.Addresses)
	switch {
	case state.Resources > 0:
		state.Owner = ""
	case state.Owner == "" && state.Lineage != "":
		state.Owner = terraform.UnknownOwner
	}
	return state, nil
}

// index returns the index of an instance as it is written in an address.
func index(key any) string {
	switch key := key.(type) {
	case string:
		// The tool escapes templates in its addresses.
		return "[" + string(hclwrite.TokensForValue(cty.StringVal(key)).Bytes()) + "]"
	case float64:
		return fmt.Sprintf("[%d]", int64(key))
	default:
		return ""
	}
}

// ownerOutput is the output of a new state that names the workspace which created it.
// The first apply removes it.
const ownerOutput = "zz_capt_workspace"

// New returns the first state of a workspace. It names its owner, because two new
// workspaces may use the same backend by mistake.
func New(lineage, owner string) []byte { return empty(lineage, 1, owner) }

// Free returns the last state of a workspace: another one may use it.
func Free(last terraform.StateInfo) []byte {
	return empty(last.Lineage, last.Serial+1, terraform.NoOwner)
}

// empty returns a state without resources.
func empty(lineage string, serial uint64, owner string) []byte {
	return fmt.Appendf(nil, `{"version":%d,"terraform_version":"1.0.0","serial":%d,"lineage":%q,"outputs":{%q:{"value":%q,"type":"string"}},"resources":[],"check_results":null}`+"\n",
		stateVersion, serial, lineage, ownerOutput, owner)
}

// Identify returns the lineage and serial of a state, which may be encrypted, and
// the number of its resources if it is not.
func Identify(data []byte) (terraform.StateInfo, error) {
	state, err := Parse(data)
	if errors.Is(err, ErrEncrypted) {
		var file document
		_ = json.Unmarshal(data, &file) // Parse has decoded it.
		return terraform.StateInfo{Lineage: file.Lineage, Serial: file.Serial}, nil
	}
	if err != nil {
		return terraform.StateInfo{}, err
	}
	return state.StateInfo, nil
}

// IsLater reports whether a state is a later version of the saved one, or the first.
func IsLater(state, saved []byte) bool {
	later, laterErr := Identify(state)
	current, currentErr := Identify(saved)
	return laterErr == nil && currentErr == nil && (current.Lineage == "" || later.Lineage == current.Lineage && later.Serial > current.Serial)
}

// registries are the default registries of the products, with which the addresses of providers in a
// state begin.
var registries = map[string]string{
	"registry.opentofu.org": terraform.ProductOpenTofu,
	"registry.terraform.io": terraform.ProductTerraform,
}

// WriterOf returns the tool that wrote a state, as far as it is known: a state records the version,
// and only the addresses of its providers show the product.
func WriterOf(state []byte) terraform.Tool {
	var file document
	if json.Unmarshal(state, &file) != nil {
		return terraform.Tool{}
	}
	if file.EncryptedData != "" {
		// Terraform does not encrypt states.
		return terraform.Tool{Product: terraform.ProductOpenTofu}
	}
	tool := terraform.Tool{Version: file.ToolVersion}
	for _, resource := range file.Resources {
		for host, product := range registries {
			if strings.Contains(resource.Provider, `["`+host+"/") {
				tool.Product = product
				return tool
			}
		}
	}
	return tool
}
