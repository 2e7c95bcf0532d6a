package command

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/appthrust/capt/internal/terraform"
)

// State is what the engine reads of a state file.
type State struct {
	terraform.StateInfo
	// ToolVersion is the version that wrote it.
	ToolVersion string
	Outputs     map[string]terraform.Output
	// Addresses are those of the managed resources.
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

// ErrEncrypted is returned for a state that only the tool can read.
var ErrEncrypted = errors.New("state is encrypted")

const stateVersion = 4

// ParseState reads a state of format version 4. Nothing at all is an empty state.
func ParseState(data []byte) (*State, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return &State{}, nil
	}
	var file stateFile
	if err := json.Unmarshal(data, &file); err != nil {
		// The message of the decoder may quote the state.
		return nil, errors.New("parsing state: it is no valid JSON")
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

// EmptyState returns a state of nothing. The Kubernetes backend writes one on
// first use and locks the state for that even with -lock=false, so whoever
// holds the lock writes it beforehand.
func EmptyState(lineage string) []byte {
	return fmt.Appendf(nil, `{"version":%d,"terraform_version":"1.0.0","serial":1,"lineage":%q,"outputs":{},"resources":[],"check_results":null}`+"\n", stateVersion, lineage)
}

// CompressState encodes a state as the Kubernetes backend keeps it under the
// key tfstate of its Secret.
func CompressState(state []byte) ([]byte, error) {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	if _, err := writer.Write(state); err != nil {
		return nil, fmt.Errorf("compressing state: %w", err)
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("compressing state: %w", err)
	}
	return out.Bytes(), nil
}

// DecompressState decodes what CompressState encodes.
func DecompressState(data []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("decompressing state: %w", err)
	}
	state, err := io.ReadAll(reader)
	if err != nil {
		return nil, fmt.Errorf("decompressing state: %w", err)
	}
	return state, nil
}

// erroredState is where the tool leaves a state that it could not save.
const erroredState = "errored.tfstate"

// RescuedState returns the files in which the tool left states of the working
// directory that it could not save, the oldest first. Push one with StatePush,
// then remove its file.
func RescuedState(dir string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(dir, "rescued-*.tfstate"))
	if err != nil {
		return nil, fmt.Errorf("looking for rescued states: %w", err)
	}
	slices.Sort(found)
	kept, err := readMarker(dir)
	if err != nil {
		return nil, err
	}
	latest := filepath.Join(dir, kept.Root, erroredState)
	if _, err := os.Stat(latest); err == nil {
		found = append(found, latest)
	}
	return found, nil
}

// rescue moves such a file out of the module before that is replaced.
func rescue(dir, root string) error {
	from := filepath.Join(root, erroredState)
	to := filepath.Join(dir, fmt.Sprintf("rescued-%d.tfstate", time.Now().UnixNano()))
	if err := os.Rename(from, to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("keeping a rescued state: %w", err)
	}
	return nil
}
