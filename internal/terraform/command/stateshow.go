package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/appthrust/capt/internal/terraform"
)

// shownResource is a resource in the output of the tool's show command.
type shownResource struct {
	Address       string         `json:"address"`
	Mode          string         `json:"mode"`
	Type          string         `json:"type"`
	Name          string         `json:"name"`
	Index         any            `json:"index,omitempty"`
	Provider      string         `json:"provider_name"`
	SchemaVersion json.Number    `json:"schema_version,omitempty"`
	Values        map[string]any `json:"values"`
	Sensitive     any            `json:"sensitive_values,omitempty"`
	DependsOn     []string       `json:"depends_on,omitempty"`
	Tainted       bool           `json:"tainted,omitempty"`
	Deposed       string         `json:"deposed_key,omitempty"`
}

type shownModule struct {
	Resources []shownResource `json:"resources"`
	Children  []shownModule   `json:"child_modules"`
}

// find returns the resource with the address, or nil.
func (m *shownModule) find(address string) *shownResource {
	for i := range m.Resources {
		if m.Resources[i].Address == address && m.Resources[i].Deposed == "" {
			return &m.Resources[i]
		}
	}
	for i := range m.Children {
		if found := m.Children[i].find(address); found != nil {
			return found
		}
	}
	return nil
}

// StateShowJSON returns a resource in the state as JSON. Sensitive values are masked
// unless sensitive is set.
func (s *Session) StateShowJSON(ctx context.Context, address string, sensitive bool) (string, error) {
	var text []byte
	err := s.ready(ctx, func() (err error) {
		text, err = s.capture(ctx, "show", []string{"show", "-json"}, nil)
		return err
	})
	if err != nil {
		return "", err
	}
	return showJSON(text, address, sensitive)
}

func showJSON(text []byte, address string, sensitive bool) (string, error) {
	var state struct {
		Values struct {
			Root shownModule `json:"root_module"`
		} `json:"values"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&state); err != nil {
		// The decoder's message may contain parts of the state.
		return "", errors.New("parsing the output of show: invalid JSON")
	}
	found := state.Values.Root.find(address)
	if found == nil {
		return "", fmt.Errorf("no resource in the state has the address %s: write the address of one instance, as state list prints it", address)
	}
	if !sensitive {
		found.Values, _ = mask(found.Values, found.Sensitive).(map[string]any)
	}
	found.Sensitive = nil
	out, err := json.Marshal(found)
	if err != nil {
		return "", fmt.Errorf("encoding the resource: %w", err)
	}
	return string(out), nil
}

// mask returns a value without the parts that are sensitive. The second argument has
// the structure of the value, with true for each sensitive part.
func mask(value, sensitive any) any {
	switch sensitive := sensitive.(type) {
	case bool:
		if sensitive && value != nil {
			return terraform.Mask
		}
	case map[string]any:
		if values, ok := value.(map[string]any); ok {
			for key := range sensitive {
				if part, found := values[key]; found {
					values[key] = mask(part, sensitive[key])
				}
			}
		}
	case []any:
		if values, ok := value.([]any); ok {
			for i := range min(len(values), len(sensitive)) {
				values[i] = mask(values[i], sensitive[i])
			}
		}
	}
	return value
}
