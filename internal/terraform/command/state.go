package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/appthrust/capt/internal/terraform"
)

// State is the part of a state file that the engine uses.
type State struct {
	terraform.StateInfo
	// ToolVersion is the version of the tool that wrote the state.
	ToolVersion string
	Outputs     map[string]terraform.Output
	// Addresses are the addresses of the managed resources.
	Addresses []string
}

type stateFile struct {
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

// ParseState parses a state of format version 4. No data is an empty state.
func ParseState(data []byte) (*State, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return &State{}, nil
	}
	var file stateFile
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
		StateInfo:   terraform.StateInfo{Lineage: file.Lineage, Serial: file.Serial},
		ToolVersion: file.ToolVersion,
		Outputs:     make(map[string]terraform.Output, len(file.Outputs)),
	}
	for name, output := range file.Outputs {
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
	return state, nil
}

func index(key any) string {
	switch key := key.(type) {
	case string:
		return fmt.Sprintf("[%q]", key)
	case float64:
		return fmt.Sprintf("[%d]", int64(key))
	default:
		return ""
	}
}

// EmptyState returns a state without resources and outputs. See
// Session.InitialState for its use.
func EmptyState(lineage string) []byte {
	return fmt.Appendf(nil, `{"version":%d,"terraform_version":"1.0.0","serial":1,"lineage":%q,"outputs":{},"resources":[],"check_results":null}`+"\n", stateVersion, lineage)
}

// erroredState is the file in which the tool saves a state that it could not write
// to the backend.
const erroredState = "errored.tfstate"

// RescuedState returns the files of the working directory with states that the
// tool could not write to the backend, oldest first. PushRescued pushes one.
func RescuedState(dir string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(dir, "rescued-*.tfstate"))
	if err != nil {
		return nil, fmt.Errorf("listing rescued states: %w", err)
	}
	slices.Sort(found)
	previous, err := readMarker(dir)
	if err != nil {
		return nil, err
	}
	latest := filepath.Join(dir, previous.Root, erroredState)
	if _, err := os.Stat(latest); err == nil {
		found = append(found, latest)
	}
	return found, nil
}

// rescue moves the file of an unsaved state out of the module, so that the module
// can be replaced.
func rescue(dir, root string) error {
	from := filepath.Join(root, erroredState)
	to := filepath.Join(dir, fmt.Sprintf("rescued-%d.tfstate", time.Now().UnixNano()))
	if err := os.Rename(from, to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("moving the rescued state: %w", err)
	}
	return nil
}
