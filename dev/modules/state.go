package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// stateModule is a module in the JSON form of a state.
type stateModule struct {
	Resources []stateResource `json:"resources"`
	Children  []stateModule   `json:"child_modules"`
}

type stateResource struct {
	Address       string         `json:"address"`
	Mode          string         `json:"mode"`
	Type          string         `json:"type"`
	Name          string         `json:"name"`
	Index         any            `json:"index"`
	Provider      string         `json:"provider_name"`
	SchemaVersion int            `json:"schema_version"`
	Values        map[string]any `json:"values"`
}

// providerDefaults are the values that the AWS provider writes to a state for
// attributes that are not configured. A mock omits them, and the plan would replace the
// resource.
var providerDefaults = map[string]map[string]any{
	"aws_cloudwatch_event_rule":   {"event_bus_name": "default"},
	"aws_cloudwatch_event_target": {"event_bus_name": "default"},
	"aws_iam_instance_profile":    {"path": "/"},
	"aws_iam_policy":              {"path": "/"},
	"aws_iam_role":                {"path": "/"},
	"aws_kms_key":                 {"customer_master_key_spec": "SYMMETRIC_DEFAULT", "key_usage": "ENCRYPT_DECRYPT"},
	"aws_sqs_queue":               {"fifo_queue": false},
}

type fileResource struct {
	Module    string         `json:"module,omitempty"`
	Mode      string         `json:"mode"`
	Type      string         `json:"type"`
	Name      string         `json:"name"`
	Provider  string         `json:"provider"`
	Instances []fileInstance `json:"instances"`
}

type fileInstance struct {
	Index         any            `json:"index_key,omitempty"`
	SchemaVersion int            `json:"schema_version"`
	Attributes    map[string]any `json:"attributes"`
}

// stateFile converts the JSON output of a state to a state file. It omits data sources,
// which are always read again.
func stateFile(root stateModule) (string, error) {
	var resources []*fileResource
	known := map[string]*fileResource{}
	for _, r := range root.all() {
		if r.Mode != "managed" {
			continue
		}
		at := strings.LastIndex(r.Address, r.Type+"."+r.Name)
		if at < 0 {
			return "", fmt.Errorf("address %s is not that of a %s", r.Address, r.Type)
		}
		path := strings.TrimSuffix(r.Address[:at], ".")
		key := path + "." + r.Type + "." + r.Name
		resource, ok := known[key]
		if !ok {
			resource = &fileResource{Module: path, Mode: r.Mode, Type: r.Type, Name: r.Name, Provider: fmt.Sprintf("provider[%q]", r.Provider)}
			known[key] = resource
			resources = append(resources, resource)
		}
		for name, value := range providerDefaults[r.Type] {
			if r.Values[name] == nil {
				r.Values[name] = value
			}
		}
		resource.Instances = append(resource.Instances, fileInstance{Index: r.Index, SchemaVersion: r.SchemaVersion, Attributes: r.Values})
	}
	text, err := json.Marshal(map[string]any{
		"version": 4, "terraform_version": "1.8.0", "serial": 1, "lineage": "tested", "outputs": map[string]any{}, "resources": resources,
	})
	if err != nil {
		return "", fmt.Errorf("writing the state: %w", err)
	}
	return string(text), nil
}

func (m stateModule) all() []stateResource {
	found := m.Resources
	for _, child := range m.Children {
		found = append(found, child.all()...)
	}
	return found
}
