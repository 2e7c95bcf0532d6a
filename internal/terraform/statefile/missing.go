package statefile

import (
	"encoding/json"
	"fmt"
)

// Missing returns how many managed resources of a state another one does not have, or -1 if one
// of them is encrypted or cannot be read. A resource with another ID is another one: it was
// created again.
func Missing(state, other []byte) int {
	own, ownErr := instances(state)
	known, knownErr := instances(other)
	if ownErr != nil || knownErr != nil {
		return -1
	}
	missing := 0
	for instance, count := range own {
		missing += max(0, count-known[instance])
	}
	return missing
}

// instances counts the managed resources of a state by what identifies them.
func instances(data []byte) (map[string]int, error) {
	if _, err := Parse(data); err != nil || len(data) == 0 {
		return nil, err
	}
	var file struct {
		Resources []struct {
			Module, Mode, Type, Name string
			Instances                []struct {
				IndexKey   any `json:"index_key"`
				Deposed    string
				Attributes json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err //nolint:wrapcheck // No caller shows it.
	}
	found := map[string]int{}
	for _, resource := range file.Resources {
		if resource.Mode != "managed" {
			continue
		}
		for _, instance := range resource.Instances {
			var attributes struct{ ID any }
			_ = json.Unmarshal(instance.Attributes, &attributes) // Without an ID, the address identifies it.
			found[fmt.Sprint(resource.Module, "\n", resource.Type, "\n", resource.Name, "\n", index(instance.IndexKey), "\n", instance.Deposed, "\n", attributes.ID)]++
		}
	}
	return found, nil
}
